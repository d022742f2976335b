"""The page of all commands: made from the parser of `dp-saddle`, so that nothing on it can be out
of date."""
import re
import textwrap

from dp_saddle.command.words import (
    COMMANDS,
    EXAMPLES,
    KEYS,
    STATUS,
    command_parser,
    meaning,
)

BEGIN = """# Commands

All that `dp-saddle` takes and prints, as `dp-saddle COMMAND --help` says it; the pages of `command`
show how it answers. A run is said by rate and steps, in a trainer's words (`--batch-size`,
`--dataset-size`, `--epochs`, `--sampling`), or by a file. Numbers may be fractions (`512/60000`)
or powers (`1e4`): they are taken exactly."""

def plain(text):
    "A text as Markdown that shows what stands there; options as they are typed."
    escaped = re.sub(r"([\\`*_\[\]<>|$#])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(--[a-z][a-z-]*)", r"`\1`", escaped)

def row(*cells): return "| " + " | ".join(cells) + " |"

def written(names, settings):
    "An option as it is written: its names, and what follows them."
    if not names[0].startswith("-"): return f"`{names[0]}`"
    values = settings.get("choices") and ", ".join(settings["choices"])
    named = settings.get("metavar") or names[0].strip("-").replace("-", "_").upper()
    value = "" if settings.get("action") else f" {values or named}"
    several = f"{value} ..." if settings.get("nargs") == "+" else value
    return ", ".join(f"`{name}`" for name in names) + several

def options(command):
    "A table of what a command takes."
    said = [(names, settings) for names, settings in command.options if "--help" not in names]
    rows = (row(written(names, settings) + (" (needed)" if needed(names, settings) else ""),
                plain(settings.get("help", ""))) for names, settings in said)
    return "\n".join([row("", "what it says"), row("---", "---"), *rows])

def needed(names, settings):
    return settings.get("required", not names[0].startswith("-"))

def keys(name):
    "A table of what it prints for machines."
    top, rows = KEYS[name]
    said = [(f"`{key}`", meaning(key)) for key in top]
    said += [(f"`results[].{key}`", meaning(key)) for key in rows]
    return "\n".join([row("with `--json`", "what it says"), row("---", "---"),
                      *(row(key, plain(text)) for key, text in said)])

def page():
    "The page, in Markdown."
    status = [row(f"{n}", plain(text)) for n, text in STATUS.items()]
    parts = [BEGIN, "\n".join([row("exit status", "what it says"), row("---", "---"), *status])]
    for name, command in command_parser().commands.items():
        parts += [f"## {name}", plain(COMMANDS.get(name, command.description)) + "."]
        if name in EXAMPLES:
            typed = textwrap.wrap(f"$ dp-saddle {name} {EXAMPLES[name]}", 72,
                                  break_long_words=False, break_on_hyphens=False)
            parts.append("```console\n" + " \\\n    ".join(typed) + "\n```")
        parts.append(options(command))
        if name in KEYS: parts.append(keys(name))
    return "\n\n".join(parts) + "\n"

if __name__ == "__main__":
    print(page())
