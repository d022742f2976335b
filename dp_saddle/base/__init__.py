"""Accurate doubles, checked arguments, strict readers, figures: what every other folder rests on.

You need this folder if you write a chapter or a module: a function that keeps its digits, an
error that names its parameter, a style for a picture. Its one result: doubles with a proved
rounding error. Used by every other folder; it uses none.

Its protocol. Of sums: `two_sum` has the exact error, `by_halves` and `tail_sums` lose little,
`round_outwards` makes a bound of a number. Without cancellation: `expm1mx`, `log_expm1`. Without
overflow: `capped_exp`; without too much memory: `in_blocks`. Answers that are kept:
`keeps_answers`. Roots in proved brackets: `invert`, `bisect`. `checks` has one function for each
kind of argument, and each returns the value or raises an error that names parameter, value and
range; `read_json` and `read_yaml` are strict. A constant of a module is of one of three kinds,
proved, rounding or tuning; the index of constants lists the first two.

From `doors`:
    door: What the `__init__` of a folder needs, so that names are loaded when somebody asks for
        them

From `texts`:
    as_path: The value as a path; else TypeError
    DIGITS: of a number that is shown: of an eps, of a probability
    FEW_DIGITS: of a number that is shown: of an eps, of a probability
    kind_of: What it is, and the keys that it has, but not what is in it
    known: The name, if it is one of these; else ValueError: with what was meant, or where it
        belongs
    lines_of: Where a key stands
    meant: Which of the names means the same, if one does
    quoted: A value as an error quotes it: its `repr`, or how that begins
    read_bytes: What is in a file
    read_file: What a file says
    read_json: JSON of which there is one reading
    read_text: The same as a text, in UTF-8
    read_toml: TOML, of which there is one reading
    read_yaml: YAML of which there is one reading
    told: As an error quotes it: of what holds more, which may be anybody's, the kind alone
    UNCLEAR: in place of a value that can be read in two ways, in a file that may have one

From `numerics`:
    AT_ONCE: numbers of a table that are held at a time
    bisect: Where yes-or-no questions change their answer: by halves, elementwise, until
        neighbours
    by_halves: The sum over the first axis: an error grows with the logarithm of its length
    capped_exp: e^x where it is a bound: beyond e^600, which says as little, it is cut, and
        nothing overflows
    capped_expm1: e^x - 1 to all digits, cut as `capped_exp` is
    Crossing: Where a falling function goes through 0: it is positive at one end, and not at the
        other
    decaying_sums: sum_{i >= j} p_i decay^{i - j} for every j: one pass from the right
    END_STEPS: from the root to an end
    ELLIPSE: rho of the ellipses on which functions are bounded
    expm1mx: e^x - 1 - x to full relative precision, also where it is nearly x^2/2
    EXTENDED: (a type; what it is worth is np.finfo of it)
    FEW_NODES: Tuning: only time and width depend on it; nodes of a rule, as several chapters have
        them
    find_roots: All roots at once, each to a few units in the last place (Chandrupatla 1997)
    gauss_error: Gauss's rule on a panel: its error over that of the largest |f| on the ellipse
        around it
    HUGE: whose square is a double still: what is larger is as good as infinite
    in_blocks: The rows of x, as many at a time as a table of `AT_ONCE` numbers has
    in_order: A lower bound that is not above the upper one: ArithmeticError if it is
    invert: Where a falling function goes through 0: a proved bracket (Chandrupatla 1997)
    LARGEST_LOG: and others here: e^700 is a double still
    legendre: Gauss's rule of n nodes, exact for polynomials of degree 2n - 1, to half a last
        digit
    LENGTHEN: by which such a step is too long, relatively, doubled each time
    LINE_NODES: of a line of frequencies that takes no time to speak of
    log_chernoff_factor: log max (1 - e^-l)e^-ul over l > 0: log delta(x) <= K(u) - ux plus this
        (Canonne et al. 2020)
    log_expm1: log(e^x - 1) for x > 0
    MANY_NODES: Tuning: only time and width depend on it; nodes of a rule, as several chapters
        have them
    NATS: of a sum e^-37 is left out: half a last digit
    NEGLIGIBLE: a probability that is as good as none
    NEWTON_STEPS: of Newton's method, which settles long before
    RAREST: a delta, or a rate, down to which a curve is followed if nothing is said
    round_outwards: x in decimal digits, on the safe side of what the double (or the Decimal) is
    rounded_up: The double that an exact bound is
    RTOL: relative width of a bracket: about as narrow as doubles allow
    SAFE_LOG: nats: exponents of bounds are cut here
    safe_log: log x, with -inf at 0 and no warning
    semi_axes: Of the ellipse around a panel of half-length 1: exact where rho is a power of two
    SERIES_REACH: |x| below which e^x - 1 - x is summed as a series
    SMALLEST: the smallest double > 0: an upper bound on what is below all doubles
    tail_sums: sum_{i >= j} p_i for every j, by rows, so that an error grows like the root of the
        length
    tilts_up_to: Tilts at which Chernoff's bound, or a Renyi divergence, is tried
    TINY: stands under logarithms and quotients: 1/TINY is a double still
    two_sum: a + b rounded, and what the rounding lost (Knuth 1969): exactly, as long as nothing
        overflows
    ULP: 2^-52: from 1 to the next double
    ways_to_draw: All ways in which n draws may be of these kinds, whatever their order
    weighted_expm1mx: exp(logw) (e^x - 1 - x), also where e^x overflows but its weight does not
    WIDE: of what is made of delta, relative: a width that is worth a warning

From `checks`:
    asking: a context, of whoever asks what is kept, or adds to it
    cached_property: A property that is computed once: where two threads ask at a time, the first
        answer counts
    KEPT: answers of a function, of some MB at most
    kept_answer: make(), or what it was when this key was asked before; of too many answers the
        oldest goes
    Keeps: A class whose objects keep answers under names, `KEPT` of each name
    keeps_answers: Keep a function's answers
    MadeInTurn: A class that asks while one of it is made: its constructor, and its heirs', hold
        `asking`
    patch: Make the function a method (or a property) of the class that its first parameter names
    Saved: What can be saved and goes on where it was
    TooDear: What is asked would take more work than is allowed: nothing of it was done

From `progress`:
    counted: The items of a loop that may take long: who waits is told how far it is
    end_line: Clear the line, if there is one: the work is done, or something else is to be
        written
    in_threads: A function of each job, in as many threads as there are processors
    show_progress: Who is told how far a long computation is; TypeError for anything else
    still_here: What long work calls now and then: writes the line, if it is due
    Task: Work that may take long, as a context: who waits is told how far it is
    tracked: Makes every call of a function a Task
    users_level: How many calls above its caller the first line outside the caller's library is

From `traces`:
    attempt: A context in which a way is asked: gives its Attempt, which is kept if it is an
        outermost one
    noted: Keep what gave bounds with the attempt, if there is one
    towards: A context of one direction, or of a part of it; gives a function that takes its
        bounds
    traced: A context in which deciders write to the Trace that it gives
    tracing: The trace that is kept just now

From `pictures`:
    band_of: What lies between two bounds by this method: its colour, pale
    dots_of: The same, as dots without a line
    label_lines: Write the names of curves and bands beside them, in their colours
    PAGE: matplotlib settings of a figure in this book
    shades: Styles of a family of curves, from dark to light
    style_of: Colour, line and label of a method, the same in every chapter
    use_style: Draw in the style of this book from here on: matplotlib's settings are changed

From `explorer`:
    axis: A 1-d array of two or more increasing numbers in the range
    Explorer: A figure with sliders
    quantised: Positions in two bytes, OFF for what is not on the picture
    Slider: A parameter of an explorer
    slider_near: A slider that starts at the value nearest to `start`
    tabulate: The explorer's function over the grid of all its sliders
    TOP: the highest position on a picture; a level is 1/TOP of its height
"""

# AUTOGENERATED! DO NOT EDIT! File to edit: ../../nbs/base/index.ipynb.

# %% auto #0
__all__ = []

# %% ../../nbs/base/index.ipynb #ee63d849
from .doors import door

__getattr__, __dir__, __all__ = door(__name__, {
    "doors": "door",
    "texts":
        "as_path DIGITS FEW_DIGITS kind_of known lines_of meant quoted read_bytes read_file "
        "read_json read_text read_toml read_yaml told UNCLEAR",
    "numerics":
        "AT_ONCE bisect by_halves capped_exp capped_expm1 Crossing decaying_sums END_STEPS "
        "ELLIPSE expm1mx EXTENDED FEW_NODES find_roots gauss_error HUGE in_blocks in_order invert "
        "LARGEST_LOG legendre LENGTHEN LINE_NODES log_chernoff_factor log_expm1 MANY_NODES "
        "NATS NEGLIGIBLE NEWTON_STEPS RAREST round_outwards rounded_up RTOL SAFE_LOG safe_log "
        "semi_axes "
        "SERIES_REACH SMALLEST tail_sums tilts_up_to TINY two_sum ULP ways_to_draw "
        "weighted_expm1mx WIDE",
    "checks":
        "asking cached_property KEPT kept_answer Keeps keeps_answers MadeInTurn patch Saved "
        "TooDear",
    "progress":
        "counted end_line in_threads show_progress still_here Task tracked users_level",
    "traces": "attempt noted towards traced tracing",
    "constants": "",
    "pictures": "band_of dots_of label_lines PAGE shades style_of use_style",
    "explorer": "axis Explorer quantised Slider slider_near tabulate TOP",
})
