"""The privacy loss of one step: its transform, its curve, and the error bound of each number.

You need this folder if you ask where K(t), M(t+is) or the curve of one step comes from, or if you
add a noise. Its one result: each of these numbers with a proved error bound. Used by chapter 2,
which names the loss of a mechanism, and by the engine.

Its protocol is a table in The protocol of a loss: a loss is a `PLRV`, one direction of one step.
`SubsampledGaussianLoss(mu, rate, top)` is that of a Gaussian step on a Poisson sample: `mu` is
sensitivity over \\sigma, and `top` says which side stands on top, `'remove'` or `'add'`. Its
`cgf(z)` is K(z)=\\log E\\,e^{zL} and `known_cgf(t)` adds what that is off by; `delta(eps)` is its
curve. A noise that is known by its density is a class on `DensityLoss`, in some thirty lines; a
loss with finitely many values is a `FiniteLoss`. Losses do not compose: mechanisms do,
`(500*step).remove`.

From `gaussian`:
    delta_of_mu: The delta of Gaussian mechanisms, in closed form [GDP C.2]
    delta_of_sampled_step: The delta of one Gaussian step on a Poisson sample, adding or removing
        a record
    epsilon_of_mu: The eps of Gaussian mechanisms, in closed form [GDP C.2]
    epsilon_of_sampled_step: The eps of one Gaussian step on a Poisson sample, adding or removing
        a record
    FORM_ULPS: of a curve in closed form, at least
    LOG_ULPS: of a logarithm that numbers of its size are added to; of an exp
    LOSS_ULPS: of losses and eps, and of the log of what is computed from them
    LOWEST_LOG: below, no bound on a logarithm needs to be relative
    plain_epsilon_of_mu: Where the formula in plain doubles, in which digits cancel, has this
        delta: for a start

From `moduli`:
    LOG_SUM_ULPS: of two bounds' logarithms, which are added up twice: of 1 and their sizes
    log_moduli: log of the sum of the moduli of w e^{(t + is)y}, rounded up
    log_sum_turned: log of the sum of the sizes times e^{-s turn}, and e^largest, rounded up
    raised: A bound's logarithm, up by so many `ULP` of 1 and of its size; -inf stays
    sum_raised: The sum of arrays, products of two numbers each, raised by what their sizes may
        cost
    turning: (log of the largest modulus of w e^{ty}, all moduli over it, Im y), these up, this
        down by what y and logw are off by, `moved` and `weighed` ULP, and by rounding; of rows
        likewise

From `nodes`:
    cuts_at_corner: Ends of panels in [low, high]: evenly, and at the corner
    FiniteLoss: The loss of a pair of probability vectors: its atoms are all there is
    increment_noise: Bound on the rounding of `increments`, if the weights are off by eta
    increments: sum_j p_j (e^{i s y_j} - 1) for equally spaced s
    legendre_panels: 16 Legendre points on each panel between cuts
    log_delta_of_atoms: log of sum_j p_j (1 - e^{eps-l_j})_+ [SP 11]
    logs_of_changes: (log(1 + w), log(1 + relative error of 1 + w))
    missing: The error for a method that a class of one's own does not define
    NodeLoss: A loss whose transform is a sum over nodes: a class of this kind defines `path`,
        `nodes_at`, `log_strip`, `split`, and `shift_from` if its path can be shifted; and what
        any PLRV does
    SharedSums: `log_delta_of_atoms` of losses and log-probabilities, 1-d, at any 1-d eps

From `densities`:
    DensityLoss: A loss of outcomes with an analytic density (Trefethen and Weideman 2014): a
        class of this kind defines `loss`, `log_density` and `ends`. One direction: `reverse` is
        the other
    GaussianMixtureLoss: Loss of sum p_i N(c_i, sigma^2) against N(0, sigma^2), in a unit that
        turns w by pi at most before it has a zero: a class of this kind defines `mixed_at`
    log_mix: log(1 - rate + rate e^l), accurate for small rates, safe for large l [SP App
    SubsampledGaussianLoss: Loss of a Poisson-subsampled Gaussian step [SP App
    SubsampledLoss: Loss of a Poisson-subsampled step over a symmetric base [SP App

From `windows`:
    WindowedGaussianLoss: The loss of removing, for outcomes in a window and before `end`, as a
        law: its weights are divided by e^`log_mass`

From `mixtures`:
    components: The components, checked: a ValueError or TypeError names what is wrong
    LEAST_SHARE: of a component: below, it would not be told from none
    mixture_loss: The loss of sum p_i N(c_i, sigma^2) against N(0, sigma^2), by the simplest means
    MixtureLoss: Loss of sum p_i N(c_i, sigma^2) against N(0, sigma^2): of a few, `mixture_loss`
        knows better
    of_a_group: `convolution_power`; ValueError, at once, if there are too many components, or
        some too rare
    on_a_sample: The components on a Poisson sample: nothing moves with probability 1 - rate

From `laplace`:
    LaplaceLoss: Loss of a Laplace step, subsampled where rate < 1 [SP App
    PlainLaplaceLoss: Loss of a Laplace step that is not sampled, rate 1: its transform by a
        formula

From `long_lines`:
    quotient: M(t + is)/M(t) by tables, from a frequency on
    quotients_on: M(t + is)/M(t): as `line` has it, and far out by tables where there are many
        frequencies

From `tilted_cumulants`:
    moved_normal: How far a normal law is moved by rounding; what Berry and Esseen's quotient
        lacks; a factor

From `absolute_moments`:
    lyapunov_most: Above the sum of E|L_j - m_j|^3 over the tilted steps, m_j the computed means
        [SP 19]
"""

# AUTOGENERATED! DO NOT EDIT! File to edit: ../../nbs/losses/index.ipynb.

# %% auto #0
__all__ = []

# %% ../../nbs/losses/index.ipynb #207aac45
from ..base.doors import door

__getattr__, __dir__, __all__ = door(__name__, {
    "gaussian":
        "delta_of_mu delta_of_sampled_step epsilon_of_mu epsilon_of_sampled_step "
        "FORM_ULPS LOG_ULPS LOSS_ULPS LOWEST_LOG plain_epsilon_of_mu",
    "moduli": "LOG_SUM_ULPS log_moduli log_sum_turned raised sum_raised turning",
    "nodes":
        "cuts_at_corner FiniteLoss increment_noise increments legendre_panels "
        "log_delta_of_atoms logs_of_changes missing NodeLoss SharedSums",
    "densities":
        "DensityLoss GaussianMixtureLoss log_mix SubsampledGaussianLoss "
        "SubsampledLoss",
    "windows": "WindowedGaussianLoss",
    "mixtures":
        "components LEAST_SHARE mixture_loss MixtureLoss of_a_group on_a_sample",
    "laplace": "LaplaceLoss PlainLaplaceLoss",
    "steepest_descent": "",
    "long_lines": "quotient quotients_on",
    "tilted_cumulants": "moved_normal",
    "absolute_moments": "lyapunov_most",
})
