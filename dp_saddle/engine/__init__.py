"""From the losses of a run to proved bounds on its privacy curve.

You need this folder if you ask how a bound is proved, or why a question takes long. Its one
result: `ContourAccountant`, whose lower and upper bounds hold for every run. Used by chapters 8
to 11, and by all folders that are above it.

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
    widened_to: One of the two bounds, at a third of the price

From `line`:
    BELOW_CHERNOFF: nats: the first guess of log delta
    CgfTable: One direction of one composition: K at real tilts, and the lines of [SP 23] planned
        from it
    cluster_size: How many eps from the first on one tilt can serve
    reach_of: The largest loss, if that is finite, and what losses are known to

From `gaussian_epsilons`:
    gaussian_epsilon: eps of a mu-GDP mechanism at delta [GDP C.2]
    gaussian_log_bounds: A Gaussian curve with its rounding [GDP C.2]
    proved_epsilon: A bound of one side on the eps of a mu-GDP mechanism [GDP C.2]

From `stacked_kinds`:
    sampled_kinds: The sampled Gaussian steps of these noises
    step_of: The step of a kind

From `gaussian_rows`:
    epsilons_of_sampled: The eps of many runs of one kind of step each, as below, together, proved

From `ways`:
    ContourAccountant: The exact accountant: [SP 23] by the trapezoidal rule, every bound proved
    completed: What was found and, where nothing was, what is asked
    delta_without: The delta of such steps, of one kind if sampled, likewise
    epsilon_without: The eps of Gaussian steps, sampled or not, where no accountant is needed
    WAYS: every Way in which a question is answered, in the order they are asked
    whole_way: The first of the `WAYS` that is asked for the whole run

From `mixed_steps`:
    jump_bounds: Bounds on Re(log(1 - w + w e^u) - wu), for any w from 0 to 1 and any such u,
        however large (Hoeffding 1963)
    mixing_bounds: Bounds on |log(1 - w + w e^u) - wu|, to be multiplied by w(1 - w), for w from 0
        to 1 and u the difference of K between neighbouring rows, and to 0 after the last
    split_steps: What bounds from above are computed with: the steps split between two kinds

From `many`:
    LossFamily: The losses of different steps in one direction, as rows: `K` at the tilts `t`,
        what it is off by (`error`) and what mixing neighbours adds (`mixing`, `jump`), total
        variations (`tv`), and lines through the tilts
    on_lines: Put each record on a line [SP 23] that is good for its eps, and serve them
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
    upper_epsilon: Upper bounds on eps, the larger of all directions [SP 23], and which of them
        are good

From `prefixes`:
    families_for: The kinds' losses, as a schedule of them is asked for
    prefix_epsilon: Upper bounds on eps after each step, the larger of all directions, and which
        are good
"""

# AUTOGENERATED! DO NOT EDIT! File to edit: ../../nbs/engine/index.ipynb.

# %% auto #0
__all__ = []

# %% ../../nbs/engine/index.ipynb #14850e1e
from ..base.doors import door

__getattr__, __dir__, __all__ = door(__name__, {
    "smoothing": "", "solve": "facts_of NOTHING",
    "known_parts": "composed_atoms KnownPart widened widened_to", "line":
        "BELOW_CHERNOFF CgfTable cluster_size reach_of",
    "gaussian_epsilons": "gaussian_epsilon gaussian_log_bounds proved_epsilon",
    "endpoint_expansion": "", "largest_loss_levels": "", "transform_grids": "",
    "stacked_kinds": "sampled_kinds step_of", "small_losses": "", "gaussian_tables": "",
    "gaussian_rows": "epsilons_of_sampled", "gaussian_curves": "", "sorted_runs": "", "ways":
        "ContourAccountant completed delta_without epsilon_without WAYS whole_way",
    "mixed_steps": "jump_bounds mixing_bounds split_steps",
    "many": "LossFamily on_lines sum_rounding tilted_sum",
    "record_bounds": "BoundsTable delta_bounds dominating_mu epsilon_bounds gaussian_above "
        "log_missed_of upper_epsilon",
    "prefixes": "families_for prefix_epsilon",
})
