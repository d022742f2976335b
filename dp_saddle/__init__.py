"Differential-privacy accounting with proved bounds, in milliseconds, for any delta."
from .base.doors import door

__version__ = "0.1.0"

# Who has what: a folder or a chapter is loaded when one of its names is asked for. `__init__.pyi`
# says the same to editors and type checkers (tests/test_project.py compares them).
__getattr__, __dir__, __all__ = door(__name__, {
    "base": "show_progress",
    "plrv": "Bounds PLRV",
    "losses": "DensityLoss",
    "mechanisms":
        "Accountant ApproxDP Composition Discrete DiscreteGaussian DiscreteLaplace Gaussian "
        "Laplace Mechanism MixtureOfGaussians PoissonSubsampled PureDP RandomizedResponse",
    "steps":
        "adaptive_clipping AdditiveNoise banded_matrix_factorization BoundedRange "
        "exponential_delta exponential_epsilon ExponentialMechanism GaussianDP group "
        "privacy_profile PrivacyProfile RenyiDP tree_aggregation TruncatedPoisson ZCDP",
    "engine": "ContourAccountant",
    "prv_fft": "connect_the_dots FourierAccountant PRVAccountant TiltedFFT",
    "saddlepoint":
        "GaussianLimit MomentsAccountant rdp SaddlePointCLT SaddlePointMSD",
    "edgeworth": "EdgeworthAccountant EdgeworthInterval TiltedEdgeworth",
    "sampling":
        "BallsInBins BinBatches CorrelatedBins CyclicPoissonBatches fixed_size FixedSize "
        "FixedSizeBatches laplace_reports MatrixFactorization PoissonBatches PoissonReplaceOne "
        "response_lower_bound shuffled_blanket shuffled_lower_bound shuffled_reports "
        "ShuffledBatches subset_selection TwoLevelSampled unary_encoding with_replacement "
        "without_replacement",
    "filters": "GDPFilter GDPOdometer GDPResidueFilter IndividualGDPFilter RDPFilter RDPOdometer",
    "individual": "IndividualAccountant",
    "accounting": "compare delta dpsgd epsilon",
    "practice":
        "account_store advantage Audit audit bayes_risk Budget calibrate compare_sampling "
        "epsilon_after epsilon_slopes explain from_steps gdp Geometric individual_epsilon "
        "Logarithmic optimal_schedule plot_curve plot_rdp plot_sampling plot_steps plot_tradeoff "
        "Poisson read_run report run_of_history selected SelectionAccountant sweep to_steps tpr "
        "tradeoff TruncatedNegativeBinomial",
    "certificates": "Certificate certify load_certificate verify",
})
