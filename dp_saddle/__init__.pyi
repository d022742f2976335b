__version__: str

from .accounting import compare as compare
from .accounting import delta as delta
from .accounting import dpsgd as dpsgd
from .accounting import epsilon as epsilon
from .attacks import (
    advantage as advantage,
)
from .attacks import (
    bayes_risk as bayes_risk,
)
from .attacks import (
    gdp as gdp,
)
from .attacks import (
    tpr as tpr,
)
from .attacks import (
    tradeoff as tradeoff,
)
from .audits import (
    Audit as Audit,
)
from .audits import (
    audit as audit,
)
from .bins import BallsInBins as BallsInBins
from .builders import (
    TruncatedPoisson as TruncatedPoisson,
)
from .builders import (
    adaptive_clipping as adaptive_clipping,
)
from .builders import (
    banded_matrix_factorization as banded_matrix_factorization,
)
from .builders import (
    group as group,
)
from .builders import (
    tree_aggregation as tree_aggregation,
)
from .calibration import calibrate as calibrate
from .calibration import optimal_schedule as optimal_schedule
from .certificates import (
    Certificate as Certificate,
)
from .certificates import (
    certify as certify,
)
from .certificates import (
    load_certificate as load_certificate,
)
from .certificates import (
    verify as verify,
)
from .certified import ContourAccountant as ContourAccountant
from .checks import show_progress as show_progress
from .densities import DensityLoss as DensityLoss
from .derivatives import epsilon_slopes as epsilon_slopes
from .edgeworth import (
    EdgeworthAccountant as EdgeworthAccountant,
)
from .edgeworth import (
    EdgeworthInterval as EdgeworthInterval,
)
from .edgeworth import (
    TiltedEdgeworth as TiltedEdgeworth,
)
from .filters import (
    GDPFilter as GDPFilter,
)
from .filters import (
    GDPOdometer as GDPOdometer,
)
from .filters import (
    IndividualGDPFilter as IndividualGDPFilter,
)
from .filters import (
    RDPFilter as RDPFilter,
)
from .filters import (
    RDPOdometer as RDPOdometer,
)
from .fixed_batches import (
    with_replacement as with_replacement,
)
from .fixed_batches import (
    without_replacement as without_replacement,
)
from .fixed_sizes import (
    FixedSize as FixedSize,
)
from .fixed_sizes import (
    PoissonReplaceOne as PoissonReplaceOne,
)
from .fixed_sizes import (
    fixed_size as fixed_size,
)
from .individual import (
    IndividualAccountant as IndividualAccountant,
)
from .individual import (
    account_store as account_store,
)
from .individual import (
    individual_epsilon as individual_epsilon,
)
from .mechanisms import (
    Accountant as Accountant,
)
from .mechanisms import (
    ApproxDP as ApproxDP,
)
from .mechanisms import (
    Composition as Composition,
)
from .mechanisms import (
    Discrete as Discrete,
)
from .mechanisms import (
    DiscreteGaussian as DiscreteGaussian,
)
from .mechanisms import (
    DiscreteLaplace as DiscreteLaplace,
)
from .mechanisms import (
    Gaussian as Gaussian,
)
from .mechanisms import (
    Laplace as Laplace,
)
from .mechanisms import (
    Mechanism as Mechanism,
)
from .mechanisms import (
    MixtureOfGaussians as MixtureOfGaussians,
)
from .mechanisms import (
    PoissonSubsampled as PoissonSubsampled,
)
from .mechanisms import (
    PureDP as PureDP,
)
from .mechanisms import (
    RandomizedResponse as RandomizedResponse,
)
from .moments import (
    ZCDP as ZCDP,
)
from .moments import (
    BoundedRange as BoundedRange,
)
from .moments import (
    ExponentialMechanism as ExponentialMechanism,
)
from .moments import (
    exponential_delta as exponential_delta,
)
from .moments import (
    exponential_epsilon as exponential_epsilon,
)
from .noise import AdditiveNoise as AdditiveNoise
from .plrv import PLRV as PLRV
from .plrv import Bounds as Bounds
from .prv_fft import FourierAccountant as FourierAccountant
from .prv_fft import PRVAccountant as PRVAccountant
from .reports import (
    plot_curve as plot_curve,
)
from .reports import (
    plot_rdp as plot_rdp,
)
from .reports import (
    plot_steps as plot_steps,
)
from .reports import (
    plot_tradeoff as plot_tradeoff,
)
from .reports import (
    report as report,
)
from .residues import GDPResidueFilter as GDPResidueFilter
from .run_files import read_run as read_run
from .saddlepoint import SaddlePointMSD as SaddlePointMSD
from .samplers import (
    BinBatches as BinBatches,
)
from .samplers import (
    CyclicPoissonBatches as CyclicPoissonBatches,
)
from .samplers import (
    FixedSizeBatches as FixedSizeBatches,
)
from .samplers import (
    PoissonBatches as PoissonBatches,
)
from .samplers import (
    ShuffledBatches as ShuffledBatches,
)
from .sampling import compare_sampling as compare_sampling
from .sampling import plot_sampling as plot_sampling
from .schedules import (
    Budget as Budget,
)
from .schedules import (
    epsilon_after as epsilon_after,
)
from .schedules import (
    from_steps as from_steps,
)
from .schedules import (
    to_steps as to_steps,
)
from .selection import (
    Geometric as Geometric,
)
from .selection import (
    Logarithmic as Logarithmic,
)
from .selection import (
    Poisson as Poisson,
)
from .selection import (
    SelectionAccountant as SelectionAccountant,
)
from .selection import (
    TruncatedNegativeBinomial as TruncatedNegativeBinomial,
)
from .selection import (
    selected as selected,
)
from .shuffles import shuffled_lower_bound as shuffled_lower_bound
from .sweeps import sweep as sweep
from .tilted_fft import TiltedFFT as TiltedFFT
from .tilted_fft import connect_the_dots as connect_the_dots
from .tilting import (
    GaussianLimit as GaussianLimit,
)
from .tilting import (
    MomentsAccountant as MomentsAccountant,
)
from .tilting import (
    SaddlePointCLT as SaddlePointCLT,
)
from .tilting import (
    rdp as rdp,
)
