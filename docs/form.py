"""The form of the page "Your run": its HTML, with the answers to what stands in it at first.

These are computed here, by the functions that the browser runs later: a page on which nothing was
pressed has loaded no Python, and shows an answer all the same. Its script and style are
static/your_run.js and static/your_run.css; what is asked and answered is nbs/your_run.ipynb."""
import html
import json
from pathlib import Path

import nbformat

from dp_saddle.your_run import PARTS, answer

# What stands in the form at first: a published run (TensorFlow Privacy's MNIST tutorial, with 1.1).
FIRST = dict(sigma="1.1", batch_size="256", dataset_size="60000", epochs="60", delta="1e-5",
             sampling="poisson", max_batch_size="350", target_eps="1")
LATER = "slow_ones",             # what is asked for by a press of its own
NUMBERS = {
    "sigma": ("Noise multiplier", "std of the noise over the clip, on the sum"),
    "batch_size": ("Batch size", "records in a step, or expected"),
    "dataset_size": ("Records", "in the data set"),
    "epochs": ("Epochs", "passes over the data"),
    "delta": ("Delta", "well below 1/records; 1/60000 will do, too"),
    "target_eps": ("Target epsilon", "noise is looked for; may be empty"),
}
SAMPLING = {
    "poisson": "Poisson: a coin for each record",
    "truncated-poisson": "Poisson, cut at a largest batch",
    "balls-in-bins": "Balls in bins: a random batch for each record",
    "shuffle": "Shuffled, as most loaders do",
    "without-replacement": "Fixed size, without replacement",
    "none": "Every record may be in every batch",
}

def field(name, label, hint, control):
    return (f'<div class="field" data-field="{name}"><label for="yr-{name}">{label}</label>'
            f'{control}<small id="yr-{name}-hint">{hint}</small>'
            f'<strong class="problem" id="yr-{name}-problem"></strong></div>')

def number(name, label, hint):
    return field(name, label, hint, f'<input id="yr-{name}" name="{name}" value="{FIRST[name]}" '
                 f'inputmode="decimal" autocomplete="off" spellcheck="false" '
                 f'aria-describedby="yr-{name}-hint yr-{name}-problem">')

def choice():
    options = "".join(f'<option value="{key}"{" selected" if key == FIRST["sampling"] else ""}>'
                      f'{text}</option>' for key, text in SAMPLING.items())
    return field("sampling", "Batches are drawn", "what is accounted must be what is drawn",
                 f'<select id="yr-sampling" name="sampling" '
                 f'aria-describedby="yr-sampling-hint yr-sampling-problem">{options}</select>')

def first_answers():
    "Of all parts that are asked for at once, without the seconds, which are of this machine."
    found = {part: answer(part, given(FIRST)) for part in PARTS if part not in LATER}
    for part, said in found.items():
        if "error" in said: raise SystemExit(f"the form's first answer: {part}: {said['error']}")
    return found

def given(asked):
    "As the page's script sends it: a largest batch only where samples are cut."
    cut = asked["sampling"] == "truncated-poisson"
    return {k: v for k, v in asked.items() if cut or k != "max_batch_size"}

def form():
    "A cell for the page."
    answers = first_answers()
    fields = "".join(number(name, *words) for name, words in NUMBERS.items()) + choice()
    fields += number("max_batch_size", "Largest batch", "what does not fit is left out at random")
    text = (Path(__file__).parent/"your_run.html").read_text(encoding="utf-8")
    data = json.dumps({"first": answers, "parts": [p for p in PARTS if p not in LATER],
                       "later": LATER}).replace("<", "\\u003c")
    for key, value in {"FIELDS": fields, "DATA": data, "EPS": answers["cost"]["shown"][1],
                       "DELTA": FIRST["delta"],
                       "TEXT": html.escape(answers["paragraph"]["text"])}.items():
        text = text.replace(f"[[{key}]]", value)
    return nbformat.v4.new_markdown_cell("``````{raw} html\n" + text + "\n``````")
