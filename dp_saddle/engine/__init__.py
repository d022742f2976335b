"""From the losses of a run to proved bounds on its privacy curve.

You need this folder if you ask how a bound is proved, or why a question takes long. Its one
result: `ContourAccountant`, whose lower and upper bounds hold for every run. Used by chapter 6,
by chapters 8 to 11, and by the other folders but losses and base.

Its protocol. Ask `ContourAccountant(run).delta(eps)` and `.epsilon(delta)`: both directions, with
bounds. One direction is a table, `CgfTable(run.remove)`: it holds K of the run at real tilts, its
`log_delta(eps)` has lower, estimate and upper for an array of eps, and `epsilon(delta)` inverts
it; a line is the sum along one tilt, with its error bounds. The accountant tries the ways in
order. Many runs of one kind of step each are rows of one array (`epsilons_of_sampled`, a list of
runs); many records with different steps are rows too (`LossFamily`, `delta_bounds`,
`epsilon_bounds`: chapter 9 asks them, with counts split between neighbouring kinds), and so are
the prefixes of a schedule (`prefix_epsilon`).

From `solve`:
    facts_of: What it is: its kind, and of a line where it is and each part of its error
    NOTHING: what is known from below of a step of which nothing is: no loss, left out of every
        composition

From `known_parts`:
    composed_atoms: All sums of the parts' atoms: the outcomes in which no density is drawn from
    KnownPart: Part of a law that a line does not carry: its curve is added
    widened: A closed form with its rounding: eps and losses moved by some ulps, log delta by an
        allowance

From `line`:
    reach_of: The largest loss, if that is finite, and what losses are known to
    CgfTable: One direction of one composition: K at real tilts, and the lines of [SP 23] planned
        from it

From `gaussian_epsilons`:
    gaussian_epsilon: eps of a mu-GDP mechanism at delta [GDP C.2]
    gaussian_log_bounds: A Gaussian curve with its rounding [GDP C.2]
    proved_epsilon: A bound of one side on the eps of a mu-GDP mechanism [GDP C.2]

From `gaussian_rows`:
    epsilons_of_sampled: The eps of many runs of one kind of step each, as below, together, proved

From `ways`:
    ContourAccountant: The exact accountant: [SP 23] by the trapezoidal rule, every bound proved
    completed: What was found and, where nothing was, what is asked
    delta_without: The delta of such steps, of one kind if sampled, likewise
    epsilon_without: The eps of Gaussian steps, sampled or not, where no accountant is needed
    WAYS: every Way in which a question is answered, in the order they are asked
    whole_way: The first of the `WAYS` that is asked for the whole run

From `many`:
    LossFamily: The losses of different steps in one direction, as rows: `K` at the tilts `t`,
        what it is off by (`error`) and what mixing neighbours adds (`mixing`, `jump`), total
        variations (`tv`), and lines through the tilts
    mixing_bounds: Bounds on |log(1 - w + w e^u) - wu|/(w(1 - w)) and on Re of that log (Hoeffding
        1963), u the difference of K between neighbouring rows, and to 0 after the last
    on_lines: Put each record on a line [SP 23] that is good for its eps, and serve them
    split_steps: What bounds from above are computed with: the steps split between two kinds, [GDP
        D.2]
    sum_rounding: Of a record's sum over kinds, counts times K, in any order: Higham, section 3.1
    tilted_sum: A bound on K of each record at the tilts of the family, mixtures included
        (Hoeffding 1963)

From `record_bounds`:
    BoundsTable: Bounds of many records: an array of shape (records, 3), with named columns
        `.lower`, `.estimate` and `.upper`, and a `Bounds` for each row; `pandas.DataFrame` takes
        the names
    delta_bounds: Certified bounds on each record's delta at its eps [SP 23]; the estimate is the
        upper one
    dominating_mu: The smallest mu whose curve is above the convex (in e^eps) curve through the
        points [GDP 5.1]
    epsilon_bounds: Certified bounds on each record's eps [SP 23]; the estimate is the upper one
    gaussian_above: Is the Gaussian curve proved to be above the chord (in e^eps) of each cell
        [GDP 5.1]?
    log_missed_of: Lower bounds on log(1 - delta), by convexity from those at larger eps as well
    raised_between: By how much the chord between neighbouring counts has to be raised to bound
        eps between them
    upper_epsilon: Upper bounds on eps, the larger of all directions [SP 23], and which of them
        are good

From `prefixes`:
    families_for: The kinds' losses, at the tilts that prefixes of this schedule need
    prefix_epsilon: Upper bounds on eps after each step, the larger of all directions, and which
        are good
    Schedule: Steps in order, by the rows of a LossFamily

From `berry_esseen`:
    FREQUENCIES: in units of 1/std: where a transform is bounded
    half_moment: The integral of u^p e^{-u^2/2} over u > 0
    log_decay: log of a bound on |f| beyond each of FREQUENCIES
    moment_bound: The explicit first-order Edgeworth bounds with their remainders [EA Lemma 4.3]
        (Derumigny, Girard and Guyonvarch, Thm A.2: any steps; A.3: identical; with `smooth` A.4
        and A.5)
    prawitz_kernel: Psi(t), 0 < t < 1, complex (Prawitz 1972)
    PRAWITZ_SUP: sup of 2 pi |t Psi(t)|, Psi Prawitz's kernel
    smallest_moment_bound: The smallest of the bounds on sup |F - E_1| that four moments give [EA
        Lemma 4.3], with the decay of the transform for the regular versions
    step_moments: Standardised mean moments of the steps [EA Lemma 4.3], rounded away from 0.
        Gaussian steps count as one
    THREE_HALVES: Orders of moments and cumulants, and exponents, written out
    upper_gamma: The upper incomplete gamma function

From `proved_expansions`:
    EdgeworthInterval: The exact Edgeworth interval [EA 3.1, Def. 4.2]: proved bounds from a
        uniform bound on the expansion's error and Chernoff's on the tail
    transform_bound: The distance of a standardised composition from its Edgeworth expansion,
        proved from its characteristic function by the inequality of Prawitz (1972)

From `cost_sums`:
    CostFilter: A ledger with a cap, which it never passes
    CostOdometer: A ledger that is read at the multiples of an increment
    MU: squares add [GDP 3.2]
    promised: A filter's budget, with all that rounding may let in
    RHO: divergences add: Feldman and Zrnic (2021)

From `residues`:
    GDPResidueFilter: A fully adaptive filter with a Gaussian budget, for eps-DP and for Gaussian
        steps, in any order: all steps together are `budget`-GDP, whoever chooses them
    residue: What an eps-DP step leaves of a Gaussian budget

From `counted_norms`:
    noise_grid: The noise grid: given, or so many values from sigma on, evenly in the logarithm
    norm_counts: Counts of each record's noise levels [GDP D.2], and their split by total
        variation

From `record_engines`:
    chosen_rows: The counts of some records
    noise_families: A LossFamily of the steps at these noises for each direction; rate 1 has but
        one
    table_delta: delta of any number of records
    table_epsilon: eps of any number of records
    table_mu: Each record's mu: its curve is above the record's down to delta, by so many pieces
    table_renyi: Bounds on each record's Renyi divergence of this order, nats, shape (records,)

From `circles`:
    GridCurve: The privacy curve of a variable on an even grid
    infinite_part: Bounds on the mass at infinity alone: all that is left of a curve beyond the
        loss's support
    sum_on_circle: The law of the sum of the parts on a circle [PRV Alg. 1]

From `prv_bands`:
    chernoff_reach: How far up a sum and its steps reach, by Chernoff's bound at 300 tilts [PRV
        5.5]: the sum is beyond with probability delta_error/6, unless infinite, all steps
        together with half of that
    on_grid: A loss in a window on the multiples of a mesh, shifted to keep the mean [PRV Alg. 2]
    PRVAccountant: The PRV accountant [PRV Alg. 1, 2, Thm 5.5]: bounds proved from a grid
    prv_band: Mesh, windows, circle and curve of one direction, and what the errors become [PRV
        5.5]

From `fourier_grids`:
    checked_grid: L and n; ValueError for a window or a number of points that no grid has
    FourierAccountant: The Fourier accountant [FA Alg. 1]: an estimate, trivial bounds; `error`
        says how good it is
    fourier_curves: Window, points, and the curves of so many and of twice as many
    fourier_tail: What lies beyond L by [FA Thm 8] where its conditions hold, else the estimate
        [FA 7.3]
    newton_from_left: Newton's method from 0 [FA 5.4]. inf where the grid's noise is above delta

From `tilted_fft`:
    connect_the_dots: A law on multiples of the mesh whose curves, of both directions, are nowhere
        below (up) or nowhere above those of `plrv` (Doroshenko et al. 2022)
    TiltedFFT: FFT with a tilt: proved bounds with relative precision for delta down to 1e-290

From `lattices`:
    LatticeLoss: A FiniteLoss whose losses are multiples of a mesh, rounded once: long lines are
        chirps
"""

# AUTOGENERATED! DO NOT EDIT! File to edit: ../../nbs/engine/index.ipynb.

# %% auto #0
__all__ = []

# %% ../../nbs/engine/index.ipynb #14850e1e
from ..base.doors import door

__getattr__, __dir__, __all__ = door(__name__, {
    "smoothing": "", "solve": "facts_of NOTHING", "known_parts": "composed_atoms KnownPart widened",
    "line": "reach_of CgfTable",
    "gaussian_epsilons": "gaussian_epsilon gaussian_log_bounds proved_epsilon",
    "endpoint_expansion": "", "largest_loss_levels": "", "transform_grids": "",
    "stacked_kinds": "", "small_losses": "", "gaussian_tables": "",
    "gaussian_rows": "epsilons_of_sampled", "gaussian_curves": "", "sorted_runs": "", "ways":
        "ContourAccountant completed delta_without epsilon_without WAYS whole_way",
    "many": "LossFamily mixing_bounds on_lines split_steps sum_rounding tilted_sum",
    "record_bounds": "BoundsTable delta_bounds dominating_mu epsilon_bounds gaussian_above "
        "log_missed_of raised_between upper_epsilon",
    "prefixes": "families_for prefix_epsilon Schedule", "berry_esseen":
        "FREQUENCIES half_moment log_decay moment_bound prawitz_kernel "
        "PRAWITZ_SUP smallest_moment_bound step_moments THREE_HALVES upper_gamma",
    "proved_expansions": "EdgeworthInterval transform_bound",
    "cost_sums": "CostFilter CostOdometer MU promised RHO",
    "residues": "GDPResidueFilter residue", "counted_norms": "noise_grid norm_counts",
    "record_engines": "chosen_rows noise_families table_delta table_epsilon table_mu table_renyi",
    "circles": "GridCurve infinite_part sum_on_circle",
    "prv_bands": "chernoff_reach on_grid PRVAccountant prv_band", "fourier_grids":
        "checked_grid FourierAccountant fourier_curves fourier_tail newton_from_left",
    "tilted_fft": "connect_the_dots TiltedFFT", "lattices": "LatticeLoss"
})
