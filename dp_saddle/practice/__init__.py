"""What users do with the number: choose the noise, spend a budget, write the report.

You need this folder if you have a run and a question: how much noise, how long may it go on, what
does an attacker learn, what do I write. Its one result: an answer on the private side, with the
bounds that prove it. Used by the form of Your run, by certificates, by the command line and by
the adapters.

Its protocol. Every function takes a run: a mechanism, or what `dpsgd` returns. `calibrate` and
`sweep` choose the noise, the steps or the rate; `epsilon_after`, `optimal_schedule` and `Budget`
are for runs that go on; `tradeoff`, `tpr` (the ROC curve), `advantage`, `bayes_risk`, `gdp` and
`audit` say what an attacker learns; `compare_sampling` puts ways to draw batches side by side;
`selected` is for models that are chosen in private; `report` writes the paragraph; `read_run`,
`from_steps` and `to_steps` know files.

From `explanations`:
    explain: Which way answers a question, what was refused before, and each part of the error
    Explanation: Which way answered a question, and how

From `derivatives`:
    epsilon_slopes: How eps at delta changes with delta, and with each number of each kind of step
        (sigma, scale, rate, ...), by [SP 23]

From `attacks`:
    advantage: Most that an attacker's TPR exceeds the FPR: the total variation distance, delta(0)
    bayes_risk: The Bayes risk of an attacker who knows the prior, min(p, 1-p) (1 - delta(|log
        p/(1-p)|))
    gdp: The tightest mu of Gaussian DP, rounded up, and its regret (Gomez et al. 2025): of
        Gaussians alone their own
    tpr: 1 - f, f the trade-off curve (Dong et al. 2022), without the cancellation where it is
        small
    tradeoff: The trade-off curve, certified from below (Dong et al. 2022, Prop. 2.12)

From `calibration`:
    calibrate: The smallest noise (sigma, scale), the most steps or the largest rate that meets a
        target; of other parameters, what more of it does is tried
    optimal_schedule: The noise multipliers of groups of steps, epochs say, that spend eps with
        the least sum of weights*sigma^2: Lagrange's condition on the slopes of [SP 23]

From `audits`:
    Audit: What an attack proves of a run, beside what its account proves: see `audit`
    audit: An empirical lower bound on eps beside the certified upper one. 'threshold', by Clopper
        and Pearson, 'curve', which holds the rates against the run's whole certified curve too,
        and 'gdp' (Nasr et al. 2023: a run whose curve is Gaussian) need one score of each of many
        independent runs; 'one-run' needs all canaries of one, each included by a fair coin of its
        own, independent of all else

From `selection`:
    Geometric: A search runs K >= 1 times, P[K = k] = (1 - 1/mean)^{k-1}/mean (Papernot and
        Steinke 2022)
    Logarithmic: A search runs K >= 1 times, P[K = k] proportional to (1 - gamma)^k/k: mostly once
        (Papernot and Steinke 2022)
    Poisson: A search runs K times, a Poisson number; if K = 0, what is published depends on no
        data (Papernot and Steinke 2022)
    Selected: A run that is tried a random number of times, of which the best is published
    selected: Publish the best of a random number of tries (Papernot and Steinke 2022), for the
        neighbours that one try is for
    SelectionAccountant: Bounds for compositions in which runs are `selected`: from the privacy
        curve (Koskela, Redberg and Wang 2024), and by Renyi divergences (Papernot and Steinke
        2022)
    TruncatedNegativeBinomial: A search runs K >= 1 times, with a law of any shape [Papernot and
        Steinke 2022, Def. 1]: 1 is geometric, 0 logarithmic

From `sweeps`:
    Sweep: What a grid of settings costs: columns by name, `shape` says how long each parameter is
    sweep: The eps of Poisson-sampled Gaussian steps for every combination, as `epsilon` has it,
        proved

From `norm_stores`:
    account_store: `individual_epsilon` from store to store with dask, on the current distributed
        client if there is one
    individual_epsilon: Every record's eps from the whole table of norms; lazily, chunk by chunk,
        for a dask array

From `schedules`:
    Budget: A ledger for a run that has to stay within (eps, delta)
    epsilon_after: What was spent after every step of a schedule
    from_steps: The schedule of such a list
    to_steps: The steps of a run as a list for JSON. ValueError for mechanisms of one's own that
        are not registered

From `histories`:
    is_history: Is it the state of an accountant, a checkpoint with one, or an event?
    NO_PRIVACY: what a step without noise is
    read_history: What is in a file that another library wrote
    run_of_history: The run that another library's record tells of

From `run_files`:
    FORMS: how the distribution of the number of tries is written
    forms_of: A form for each run
    neighbours_of: The data sets between which its guarantee is, in words, as its steps say it
    noise_of: The correlated noise that a text says
    NOISES: how the matrix of correlated noise is written
    number: The number that a text says, rounded once
    run_of: The run that these words say
    run_of_form: The run that a file means
    SAMPLINGS: ways to draw batches, as a file and a command name them
    spread: Each combination of the values
    whole: The whole number that a text says
    with_value: What a file says with the value that it leaves open
    WORDS: the words with which a run is said

From `training_configs`:
    read_form: What a file says of a run
    read_run: The run in a file

From `reports`:
    has_search: Is a private search for hyperparameters part of it?
    plot_curve: Draw delta over eps (log scale), the certified band filled
    plot_rdp: Draw the Renyi divergence over its order, both on log scales
    plot_steps: Draw eps over the steps of a run
    plot_tradeoff: Draw what attackers miss over what they falsely accuse
    report: A paragraph for a paper or a model card, with all that a guarantee needs
    REPORT_FORMS: what `report` can write

From `comparison`:
    compare_sampling: One run under every way of drawing its batches: what eps is at least and at
        most, between which neighbours, what the sampler must do, and who draws like that
    plot_sampling: A bar for each way of drawing, from what eps is at least to what it is at most;
        log scale
"""

# AUTOGENERATED! DO NOT EDIT! File to edit: ../../nbs/practice/index.ipynb.

# %% auto #0
__all__ = []

# %% ../../nbs/practice/index.ipynb #1f7761fe
from ..base.doors import door

__getattr__, __dir__, __all__ = door(__name__, {
    "explanations": "explain Explanation",
    "derivatives": "epsilon_slopes",
    "attacks": "advantage bayes_risk gdp tpr tradeoff",
    "calibration": "calibrate optimal_schedule",
    "audits": "Audit audit",
    "selection":
        "Geometric Logarithmic Poisson Selected selected SelectionAccountant "
        "TruncatedNegativeBinomial",
    "sweeps": "Sweep sweep",
    "merged_steps": "",
    "norm_stores": "account_store individual_epsilon",
    "schedules": "Budget epsilon_after from_steps to_steps",
    "histories": "is_history NO_PRIVACY read_history run_of_history",
    "run_files":
        "FORMS forms_of neighbours_of noise_of NOISES number run_of run_of_form SAMPLINGS spread "
        "whole with_value WORDS",
    "training_configs": "read_form read_run",
    "reports":
        "has_search plot_curve plot_rdp plot_steps plot_tradeoff report REPORT_FORMS",
    "comparison": "compare_sampling plot_sampling",
})
