"Differential-privacy accounting with proved bounds, in milliseconds, for any delta."
from importlib import import_module

__version__ = "0.1.0"

# Who has what: a module is loaded when one of its names is asked for. `__init__.pyi` says the same
# to editors and type checkers (tests/test_project.py compares them).
_ROOMS = {
    "checks": "show_progress",
    "plrv": "Bounds PLRV",
    "densities": "DensityLoss",
    "mechanisms":
        "Accountant ApproxDP Composition Discrete DiscreteGaussian DiscreteLaplace Gaussian Laplace "
        "Mechanism MixtureOfGaussians PoissonSubsampled PureDP RandomizedResponse",
    "builders":
        "adaptive_clipping banded_matrix_factorization group tree_aggregation TruncatedPoisson",
    "moments": "BoundedRange exponential_delta exponential_epsilon ExponentialMechanism ZCDP",
    "certified": "ContourAccountant",
    "saddlepoint": "SaddlePointMSD",
    "tilting": "GaussianLimit MomentsAccountant rdp SaddlePointCLT",
    "edgeworth": "EdgeworthAccountant EdgeworthInterval TiltedEdgeworth",
    "prv_fft": "FourierAccountant PRVAccountant",
    "tilted_fft": "connect_the_dots TiltedFFT",
    "noise": "AdditiveNoise",
    "bins": "BallsInBins",
    "fixed_batches": "with_replacement without_replacement",
    "shuffles": "shuffled_lower_bound",
    "fixed_sizes": "fixed_size FixedSize PoissonReplaceOne",
    "filters": "GDPFilter GDPOdometer IndividualGDPFilter RDPFilter RDPOdometer",
    "residues": "GDPResidueFilter",
    "individual": "account_store individual_epsilon IndividualAccountant",
    "accounting": "compare delta dpsgd epsilon",
    "calibration": "calibrate optimal_schedule",
    "derivatives": "epsilon_slopes",
    "selection":
        "Geometric Logarithmic Poisson selected SelectionAccountant TruncatedNegativeBinomial",
    "sweeps": "sweep",
    "attacks": "advantage bayes_risk gdp tpr tradeoff",
    "audits": "Audit audit",
    "schedules": "Budget epsilon_after from_steps to_steps",
    "run_files": "read_run",
    "certificates": "Certificate certify load_certificate verify",
    "reports": "plot_curve plot_rdp plot_steps plot_tradeoff report",
    "sampling": "compare_sampling plot_sampling",
    "samplers":
        "BinBatches CyclicPoissonBatches FixedSizeBatches PoissonBatches ShuffledBatches",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = sorted(_ROOM_OF)

def __getattr__(name):
    if name in _ROOM_OF:
        found = getattr(import_module(f".{_ROOM_OF[name]}", __name__), name)
        globals()[name] = found
        return found
    try:
        if not name.startswith("_"):
            return import_module(f".{name}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

def __dir__():
    return sorted({*globals(), *__all__})
