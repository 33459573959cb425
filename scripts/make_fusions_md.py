# SPDX-License-Identifier: Apache-2.0
"""Writes docs/fusions.md from the rules and their tested examples.

    python3 scripts/make_fusions_md.py [--check]

Each rule of src/fuse/rules shows its comment, what it finds and what it leaves as trees drawn from its own text, the
conditions, and the graphs of tests/rules that it must find and must leave. --check: exit 1 if the page is not up to date.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "src" / "fuse" / "rules"
EXAMPLES = ROOT / "tests" / "rules"
PAGE = ROOT / "docs" / "fusions.md"
ABLATION = ROOT / "bench" / "ablation.json"

TOKEN = re.compile(r'\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<text>"[^"\n]*")|(?P<sign>[()\[\]{},=|?*+/-]))')

HEAD = """# Fusions

What opfuse fuses: every rule and absorber with a graph that it finds and one that it nearly finds. Trees are read from the
result at the top to what it is computed from; a name that stands for a part drawn before is written as the name alone. How
rules are written, what no rule can skip, and what the codes of near misses mean: [rules.md](rules.md).

This page is generated from the rules and from the examples that `make test` runs: `python3 scripts/make_fusions_md.py`.
"""

class Expr:
    """kind: call, name, number, choice or sum; args are expressions."""

    def __init__(self, kind, text, args=(), attrs="", optional=False):
        self.kind, self.text, self.args, self.attrs, self.optional = kind, text, list(args), attrs, optional


class Parser:
    """The language of docs/rules.md, as far as drawings need it."""

    def __init__(self, text):
        self.tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise ValueError(f"unexpected: {text[at:at + 20]!r}")
            self.tokens.append(match.group().strip())
            at = match.end()
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted=None):
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise ValueError(f"expected {wanted}, found {token!r}")
        self.at += 1
        return token

    def statement(self):
        targets = []
        if self.peek() == "(":
            self.take()
            while self.peek() != ")":
                token = self.take()
                targets += [token] if token != "," else []
            self.take(")")
        else:
            targets.append(self.take())
        self.take("=")
        return targets, self.expr()

    def expr(self):
        choices = [self.sum()]
        while self.peek() == "|":
            self.take()
            choices.append(self.sum())
        return choices[0] if len(choices) == 1 else Expr("choice", "either", choices)

    def sum(self, signs="+-"):
        left = self.sum("*/") if signs == "+-" else self.primary()
        while self.peek() and self.peek() in signs:
            sign = self.take()
            right = self.sum("*/") if signs == "+-" else self.primary()
            left = Expr("sum", f"{self.flat(left, signs)} {sign} {self.flat(right, '')}", [left, right])
        return left

    def flat(self, expr, signs):
        """An expression on one line."""
        if expr.kind == "sum":
            return expr.text if signs == "+-" else f"({expr.text})" if not re.fullmatch(r"[^+-]*", expr.text) else expr.text
        if expr.kind == "call":
            return f"{expr.text}({', '.join(self.flat(a, '+-') for a in expr.args)})"
        return expr.text

    def primary(self):
        token = self.take()
        if token == "-":
            return Expr("number", "-" + self.primary().text)
        if token == "(":
            inner = self.expr()
            self.take(")")
            return inner
        if token == "[":
            inside = []
            while self.peek() != "]":
                inside.append(self.take())
            self.take("]")
            return Expr("number", "[" + "".join(inside).replace(",", ", ") + "]")
        if not re.match(r"[A-Za-z_]", token):
            return Expr("number", token)
        optional = self.peek() == "?" and bool(self.take())
        if self.peek() == "*" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1] == "(" and token[0].isupper():
            self.take()
        if self.peek() != "(":
            return Expr("name", token, optional=optional)
        self.take("(")
        args = []
        while self.peek() != ")":
            args.append(self.expr())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return Expr("call", token, args, self.attributes())

    def attributes(self):
        if self.peek() != "{":
            return ""
        self.take("{")
        parts = [[]]
        depth = 0
        while self.peek() != "}" or depth:
            token = self.take()
            depth += (token in "([") - (token in ")]")
            if token == "," and depth == 0:
                parts.append([])
            else:
                parts[-1].append(token)
        self.take("}")
        return "{ " + ", ".join(" ".join(p).replace("( ", "(").replace(" (", "(").replace(" )", ")").replace("[ ", "[").replace(" ]", "]").replace(" ,", ",") for p in parts) + " }"


class Rule:
    def __init__(self, path):
        self.comment, self.sections, self.family = [], [], None
        statements = None
        for line in path.read_text().splitlines():
            text = line.split("#")[0].rstrip()
            if line.startswith("#"):
                if "SPDX" not in line:
                    self.comment.append(line[1:].strip())
            elif text.startswith("rule "):
                words = text.split()
                self.name = words[1]
                self.family = words[3] if len(words) > 3 else words[1].split("-")[0]
            elif text and not text.startswith(" "):
                statements = []
                self.sections.append((text.strip(), statements))
            elif text:
                statements.append(text.strip())

    def of(self, kind):
        return [lines for name, lines in self.sections if name == kind]


def draw(statements):
    """A statement list as trees, from the last statement's result."""
    parsed = [Parser(line).statement() for line in statements]
    definition = {target: value for targets, value in parsed for target in targets}
    lines, drawn = [], set()

    def label(expr):
        if expr.kind == "call":
            return f"{expr.text} {expr.attrs}".strip()
        if expr.kind == "sum":
            return expr.text
        return expr.text + ("?" if expr.optional else "")

    def node(expr, name, before, after):
        if expr.kind == "name" and expr.text in definition and expr.text not in drawn:
            drawn.add(expr.text)
            node(definition[expr.text], expr.text, before, after)
            return
        lines.append(before + (f"{name} = " if name else "") + label(expr))
        inner = expr.args if expr.kind in ("call", "choice") else []
        if inner and all(a.kind not in ("call", "choice") and not (a.kind == "name" and a.text in definition and a.text not in drawn) for a in inner) and expr.kind == "call":
            lines[-1] = before + (f"{name} = " if name else "") + f"{expr.text}({', '.join(label(a) for a in inner)}) {expr.attrs}".rstrip()
            return
        for i, arg in enumerate(inner):
            last = i + 1 == len(inner)
            node(arg, None, after + ("└─ " if last else "├─ "), after + ("   " if last else "│  "))

    for targets, value in reversed(parsed):
        if drawn.isdisjoint(targets):
            drawn.update(targets)
            node(value, ", ".join(targets), "", "")
    return lines


def side_by_side(left, right):
    width = max(len(line) for line in left + ["before"]) + 4
    rows = max(len(left), len(right))
    left, right = left + [""] * (rows - len(left)), right + [""] * (rows - len(right))
    return [f"{'before':{width}}after", ""] + [f"{a:{width}}{b}".rstrip() for a, b in zip(left, right)]


def examples(name):
    """What must fuse and what must not, as blocks of the page."""
    out, path = [], EXAMPLES / f"{name}.txt"
    if not path.exists():
        raise SystemExit(f"{path.relative_to(ROOT)} is missing: every rule and absorber has examples")
    for block in path.read_text().strip().split("\n\n"):
        head, _, graph = block.partition("\n")
        also = ""
        if head.startswith("with "):
            also = ", with " + ", ".join(f"`{rule}`" for rule in head.split()[1:])
            head, _, graph = graph.partition("\n")
        if head.startswith("hit"):
            out += [f"Fuses{also}:", "", "```", graph, "```", ""]
        elif head == "miss without a word":
            out += [f"Does not fuse{also}:", "", "```", graph, "```", ""]
        else:
            code, _, rest = head[len("miss "):].partition(" at ")
            node, _, reason = rest.partition(": ")
            out += [f"Does not fuse{also}, `{code}` at `{node}`: {reason}.", "", "```", graph, "```", ""]
    return out


def rule_section(name):
    rule = Rule(RULES / f"{name}.rule")
    matches, rewrites = rule.of("match"), rule.of("rewrite")
    out = [f"## {name}", "", f"Family `{rule.family}`. " + " ".join(rule.comment), "", "```"]
    out += side_by_side(draw(matches[0]), draw(rewrites[0])) + ["```", ""]
    lets = [line for lines in rule.of("let") for line in lines]
    wheres = [line for lines in rule.of("where") for line in lines]
    if lets:
        out += ["With " + ", ".join(f"`{line}`" for line in lets) + ".", ""]
    if wheres:
        out += ["Only where " + ", ".join(f"`{line}`" for line in wheres) + ".", ""]
    if len(matches) > 1:
        out += [f"Also found in {len(matches) - 1} other spelling{'s' if len(matches) > 2 else ''}:", "", "```"]
        for lines in matches[1:]:
            out += draw(lines) + [""]
        out[-1] = "```"
        out.append("")
    return out + examples(name)


def absorber_section(name, family):
    """Absorbers have no text of their own; the table of rules.md says what they do."""
    for line in (ROOT / "docs" / "rules.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1] == family and name in re.split(r",\s*", cells[0]):
            what = cells[2].replace(" (absorber)", "")
            return [f"## {name}", "", f"Family `{family}`, an absorber: {what}.", ""] + examples(name)
    raise SystemExit(f"the table of rules and absorbers in docs/rules.md does not say what {name} does")


GAINS = """
## What they gain

The course that opfuse comes from claims 12 % for ResNet-50 (batch normalisation folded, the residual added before the only
store), LayerNorm 2 to 3 times faster in one kernel, and 30 % for a BERT block with attention and Q/K/V fused. Measured by
`bench/ablate.py` on {processor}, {date}: minima of alternating samples, each variant in a process of its own; a slowdown is
the time of the variant over that with all fusions. Bytes are those of activations that kernels read and write in
one run; without fusion, kernels and bytes are those of the nodes of the file.

{tables}

Why it is less than the claims: what a fusion saves is traffic and dispatch. The last row of a table divides the bytes that all
fusions together save by the time that they save. With one image or a short text activations stay in the second and third
cache, from where a pass costs little beside products at nine tenths of the processor's peak; with eight images they come from
memory, and the same bytes cost several times as much. Dispatch costs nothing here: a step is a call, not an operator of a
framework, which takes microseconds each. LayerNorm in pieces is three steps that fused regions keep short, and Q, K and V share
the rows that they read even as three products. At 16 tokens,
where reading the weights takes most of the time, the variants were 2 to 4 % faster than all fusions; why is not known.
"""


def gains():
    """The section on bench/ablation.json, or nothing before anything was measured."""
    if not ABLATION.exists():
        return ""
    found = json.loads(ABLATION.read_text())
    cases, tables = found["cases"], []
    for model in dict.fromkeys(case["model"] for case in cases):
        own = [case for case in cases if case["model"] == model]
        heads = [f"{' '.join(f'{k}={v}' for k, v in c['sizes'].items())}, {c['threads']} thread{'s' * (c['threads'] > 1)}" for c in own]
        rows = []
        for variant in own[0]["variants"]:
            cells = []
            for case in own:
                best, this = case["variants"]["all fusions"], case["variants"][variant]
                cells.append(f"{this['ms']:.2f} ms" if variant == "all fusions" else f"{this['ms'] / best['ms']:.3f}")
            first = own[0]["variants"][variant]
            rows.append(f"| {variant} | {first['kernels']} | {first['bytes'] / 1e6:.1f} | " + " | ".join(cells) + " |")
        saved = [[c["variants"]["no fusion"][k] - c["variants"]["all fusions"][k] for k in ("bytes", "ms")] for c in own]
        rows.append("| GB/s that no fusion adds | | | " + " | ".join(f"{b / t / 1e6:.0f}" if t > 0 else "no time" for b, t in saved) + " |")
        head = f"| {model} | kernels | MB at {heads[0].partition(',')[0]} | " + " | ".join(heads) + " |"
        tables.append("\n".join([head, "|" + "---|" * (3 + len(own)), *rows]))
    return GAINS.format(processor=found["processor"], date=found["date"], tables="\n\n".join(tables))


def page():
    out = [HEAD + gains()]
    for line in (RULES / "rules.list").read_text().splitlines():
        if line and not line.startswith("#"):
            out += rule_section(line.strip())
    for name, family in re.findall(r'^OPF_ABSORBED\("([^"]+)", "([^"]+)"\)', (RULES.parent / "absorbers.def").read_text(), re.MULTILINE):
        out += absorber_section(name, family)
    return "\n".join(out).rstrip() + "\n"


def main():
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit("docs/fusions.md is not up to date: python3 scripts/make_fusions_md.py")


if __name__ == "__main__":
    main()
