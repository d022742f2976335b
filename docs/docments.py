"""What the comments of a signature say of its parameters (docments), as data for the site's
reference, and as sections of docstrings: `help`, editors and type checkers read those only.

In the notebooks a parameter is described once, by the comment behind it. `completed` adds what is
there to the docstrings of a module that is exported; `without` takes it away again."""
import ast
import io
import re
import textwrap
import tokenize

WIDTH, LIMIT = 98, 100      # columns: of what is written into a module, of what is there
FUNCTION = ast.FunctionDef, ast.AsyncFunctionDef
SECTION = re.compile(r'(?P<indent> *)"""(?P<text>(?:(?!""").)*?)(?:\n\n *|(?<="""))'
                     r'(?:Parameters\n *-{10}|Returns\n *-{7})\n(?:(?!""").)*?"""', flags=re.S)

def comments_in(text):
    "{line: (column, comment, does it stand alone?)}."
    lines = text.splitlines()
    return {t.start[0]: (t.start[1], t.string.lstrip("#").strip(),
                         not lines[t.start[0] - 1][:t.start[1]].strip())
            for t in tokenize.generate_tokens(io.StringIO(text).readline)
            if t.type == tokenize.COMMENT}

def grouped(ends, first, last, margin, comments):
    """[(names, comment)] of the names that end in these lines; names that share a line share its
    comment. A comment goes on in lines of its own; one at the margin belongs to what follows. The
    second part: what stands behind all."""
    names, said, result, at, before = {}, {}, [], None, []
    for name, line in ends.items(): names.setdefault(line, []).append(name)
    for line in range(first, last + 1):
        column, comment, alone = comments.get(line, (0, "", False))
        at = line if line in names else at if alone else None
        if alone and column <= margin:
            before.append(comment)
            continue
        if line in names: comment, before = " ".join([*before, comment]).strip(), []
        if not comment: continue
        if at is not None: said.setdefault(at, []).append(comment)
        elif not alone: result.append(comment)
    return ([(names[line], " ".join(words)) for line, words in said.items()], " ".join(result))

def described(node, comments):
    "([(names, comment)], what it returns) of a function; of a class, its fields."
    if isinstance(node, ast.ClassDef):
        ends = {n.target.id: n.end_lineno for n in node.body if isinstance(n, ast.AnnAssign)
                and not n.target.id.startswith("_")}
        last = max(ends.values(), default=0)
        while comments.get(last + 1, (0, 0, False))[2]: last += 1
        margin = node.col_offset + 4
        return grouped(ends, node.lineno + 1, last, margin, comments)[0] if ends else [], ""
    a, head = node.args, node.body[0].lineno - 1
    defaults = dict(zip([x.arg for x in (a.posonlyargs + a.args)][::-1], a.defaults[::-1]))
    defaults |= {x.arg: d for x, d in zip(a.kwonlyargs, a.kw_defaults) if d}
    every = [x for x in [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg] if x
             and x.arg not in ("self", "cls")]
    stars = {x.arg: "*"*n for n, x in ((1, a.vararg), (2, a.kwarg)) if x}
    ends = {stars.get(x.arg, "") + x.arg: (defaults.get(x.arg) or x).end_lineno for x in every}
    if head <= node.lineno:         # a signature of one line: the comment is of what comes back
        return [], comments.get(node.lineno, (0, "", False))[1]
    margin = min((x.col_offset for x in every), default=0)
    return grouped(ends, node.lineno, head, margin, comments)

def has_section(node):
    "Is it public, or how a class is made?"
    return not node.name.startswith("_") or node.name == "__init__"

def section(said, result, indent):
    "The lines of a docstring that say it."
    out = []
    def add(title, pairs):
        out.extend(["", title, "-"*len(title)])
        for name, comment in pairs:
            out.append(name) if name else None
            out.extend(textwrap.wrap(comment, WIDTH - len(indent) - 4*bool(name),
                                     initial_indent="    "*bool(name),
                                     subsequent_indent="    "*bool(name)))
    if said: add("Parameters", [(", ".join(names), comment) for names, comment in said])
    if result: add("Returns", [("", result)])
    return [f"{indent}{line}".rstrip() for line in out]

def literal(text):
    "(prefix, what is between the quotes) of a string as it is written."
    string = re.compile(r'([rRuU]?)("""|\'\'\'|"|\')(.*)\2', flags=re.S)
    prefix, quotes, body = string.fullmatch(text).groups()
    return prefix, body.replace("\\'", "'") if quotes == "'" else body

def completed(text):
    "The module with these sections in its docstrings."
    comments, lines, edits = comments_in(text), text.splitlines(), []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (*FUNCTION, ast.ClassDef)) or not has_section(node): continue
        said, result = described(node, comments)
        first = node.body[0]
        own = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
        if not (said or result) or not own and node.name != "__init__": continue
        indent, prefix, body = " "*first.col_offset, "", ""
        if first.lineno == node.lineno: continue    # all in one line
        if own:
            prefix, body = literal("\n".join(lines[first.lineno - 1:first.end_lineno]).strip())
        written = section(said, result, indent)
        if not prefix: written = [line.replace("\\", "\\\\") for line in written]
        start = f'{indent}{prefix}"""{body}'.rstrip() if own else f'{indent}"""'
        if len(start.splitlines()[-1]) > LIMIT: start = f"\n{indent}".join(start.rsplit(" ", 1))
        new = [*start.splitlines(), *written] if own else [f'{start}{written[1].strip()}',
                                                           *written[2:]]
        edits.append((first.lineno - 1, first.end_lineno if own else first.lineno - 1,
                      [*new, f'{indent}"""']))
    for start, end, new in sorted(edits, reverse=True, key=lambda edit: edit[0]):
        lines[start:end] = new
    return "\n".join(lines) + "\n"

def apart(text):
    """The module with a blank line above what has no docstring and begins a cell: else `help` takes
    the cell's address for one."""
    lines = text.splitlines()
    for node in reversed(ast.parse(text).body):
        if not isinstance(node, (*FUNCTION, ast.ClassDef)) or ast.get_docstring(node): continue
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1
        if lines[first - 1].startswith("# %% "): lines.insert(first, "")
    return "\n".join(lines) + "\n"

def without(text):
    "The module as it was before `completed`."
    def restored(found):
        body = found["text"]
        if not body: return "#gone"
        joined = " ".join(line.strip() for line in body.splitlines())
        indent = len(found["indent"])
        if body.count("\n") == 1 and indent + len(joined) + 2 <= LIMIT: body = joined
        one = "\n" not in body and '"' not in body
        return found["indent"] + (f'"{body}"' if one else f'"""{body}"""')
    made = SECTION.sub(restored, text)
    return made.replace("#gone\n", "")
