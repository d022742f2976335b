"Differential-privacy accounting with proved bounds, in milliseconds, for any delta."
__version__ = "0.1.0"

from .plrv import (Accountant, ApproxDP, Bounds, Composition, Discrete, Gaussian, Laplace, Mechanism, PLRV, PoissonSubsampled, PureDP, RandomizedResponse)
from .contour import ContourAccountant, delta, epsilon
from .edgeworth import EdgeworthAccountant, EdgeworthInterval, TiltedEdgeworth
from .saddlepoint import GaussianLimit, MomentsAccountant, SaddlePointCLT, SaddlePointMSD, rdp

__all__ = ['Accountant', 'ApproxDP', 'Bounds', 'Composition', 'ContourAccountant', 'Discrete', 'EdgeworthAccountant', 'EdgeworthInterval', 'Gaussian', 'GaussianLimit', 'Laplace', 'Mechanism',
           'MomentsAccountant', 'PLRV', 'PoissonSubsampled', 'PureDP', 'RandomizedResponse', 'SaddlePointCLT', 'SaddlePointMSD', 'TiltedEdgeworth', 'delta', 'epsilon', 'rdp']
