# SPDX-License-Identifier: Apache-2.0
"""What bench/compare.py found, as Markdown and as plots.

    report.py DIR      makes DIR/results.md and the plots again from DIR/results.json
"""

import json
import math
import os
import pathlib
import statistics
import sys

DISTURBED = 1.1  # a sample counts while the probe beside it is at most this much slower than the best
FLOORS = pathlib.Path(__file__).resolve().parent / "floors.json"
CLEAN_ENOUGH = 3  # samples; with fewer a ratio says nothing

HEAD = """# Results

Measured by `bench/compare.py` on {processor}, {date}; 32-bit floats, random weights and inputs. {versions}.
Each runtime ran in a process of its own on the same cores and was sampled in turn, the others stopped; samples beside a
slow probe of fused multiply-adds do not count. A ratio is the other's time over opfuse's: above 1, opfuse is faster. Time
from memory to memory, called from Python but for opfuse, which costs the others some microseconds a run; "min (median)".
CPU time is that of all threads, spinning included. Absolute times mean little without their neighbours.
"""


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), os.uname().machine)


# ---- figures ----

def is_clean(sample, best):
    return sample["probe"] * DISTURBED >= best


def count_clean(samples, best):
    return sum(is_clean(sample, best) for sample in samples)


def figures(record, best):
    """{"min", "median", "cpu", "clean", "of"} of a runtime's samples, None when it has none. Without a clean one all count."""
    samples = record.get("samples")
    if not samples or "refused" in record:
        return None
    clean = [sample for sample in samples if is_clean(sample, best)]
    used = clean or samples
    return {"min": min(min(s["wall"]) for s in used), "median": statistics.median(statistics.median(s["wall"]) for s in used),
            "cpu": min(min(s["cpu"]) for s in used), "clean": len(clean), "of": len(samples)}


def opening(record, best):
    """(ms from load to the first result, peak bytes) at best, or None."""
    opens = record.get("opens")
    if not opens or "refused" in record or "wrong" in record:
        return None
    used = [o for o in opens if is_clean(o, best)] or opens
    return min(o["open_ms"] + o["first_run_ms"] for o in used), min(o["peak_bytes"] for o in used)


def best_probe(model, results):
    return results["best_probe"][str(model["threads"])]


def ratios(model, results, what):
    """{peer: its figure over opfuse's}."""
    best = best_probe(model, results)
    own = figures(model["runtimes"]["opfuse"], best)
    table = {name: figures(record, best) for name, record in model["runtimes"].items() if name != "opfuse"}
    return {name: found[what] / own[what] for name, found in table.items() if own and found and own[what] > 0}


def fewest_clean(model, results):
    """(undisturbed samples, samples) of the runtime that has fewest."""
    found = [f for f in (figures(r, best_probe(model, results)) for r in model["runtimes"].values()) if f]
    return min((f["clean"], f["of"]) for f in found)


def usable(models, results):
    return [model for model in models if fewest_clean(model, results)[0] >= CLEAN_ENOUGH]


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


# ---- text ----

def label(model):
    sizes = " ".join(f"{name}={size}" for name, size in model["sizes"].items())
    return f"{model['name']} {sizes}".strip()


def one_line(model, results):
    titles = results["titles"]
    parts = [f"{titles[name]} {ratio:.2f}" for name, ratio in ratios(model, results, "min").items()]
    parts += [f"{titles[name]} {'wrong result' if 'wrong' in r else 'not taken'}"
              for name, r in model["runtimes"].items() if "wrong" in r or "refused" in r]
    return f"{label(model)}, threads {model['threads']}: " + ", ".join(parts)


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def cell(model, name, texts):
    record = model["runtimes"].get(name, {})
    return "wrong" if "wrong" in record else "not taken" if "refused" in record else texts.get(name, "")


def mean_row(models, peers, results, what, before, after):
    found = [ratios(model, results, what) for model in usable(models, results)]
    lists = {name: [r[name] for r in found if name in r] for name in peers}
    means = [f"**{geometric_mean(values):.2f}**" if values else "" for values in lists.values()]
    return ["geometric mean", *[""] * before, *means, *[""] * after]


def wall_table(models, peers, results):
    rows = []
    for model in models:
        best = best_probe(model, results)
        own = figures(model["runtimes"]["opfuse"], best)
        low, middle = ratios(model, results, "min"), ratios(model, results, "median")
        texts = {name: f"{low[name]:.2f} ({middle[name]:.2f})" for name in low}
        clean, of = fewest_clean(model, results)
        note = f"{clean} of {of}" + ("" if clean >= CLEAN_ENOUGH else ": do not use")
        rows.append([label(model), f"{own['min']:.3f}", *(cell(model, name, texts) for name in peers), note])
    rows.append(mean_row(models, peers, results, "min", 1, 1))
    return table(["model", "opfuse ms", *(results["titles"][p] for p in peers), "clean samples"], rows)


def cpu_table(models, peers, results):
    rows = []
    for model in models:
        own = figures(model["runtimes"]["opfuse"], best_probe(model, results))
        texts = {name: f"{ratio:.2f}" for name, ratio in ratios(model, results, "cpu").items()}
        rows.append([label(model), f"{own['cpu']:.3f}", *(cell(model, name, texts) for name in peers)])
    rows.append(mean_row(models, peers, results, "cpu", 1, 0))
    return table(["model", "opfuse ms", *(results["titles"][p] for p in peers)], rows)


def open_table(models, peers, results):
    rows = []
    for model in models:
        best = best_probe(model, results)
        found = {name: opening(record, best) for name, record in model["runtimes"].items()}
        own = found["opfuse"]
        texts = {n: f"{f[0] / own[0]:.2f}, {f[1] / own[1]:.2f}" for n, f in found.items() if f and own[0] > 0 and own[1] > 0}
        rows.append([label(model), f"{own[0]:.0f}, {own[1] / 2**20:.0f}", *(cell(model, name, texts) for name in peers)])
    return table(["model", "opfuse ms, MiB", *(results["titles"][p] for p in peers)], rows)


def reasons(models, results):
    lines = []
    for model in models:
        for name, record in model["runtimes"].items():
            reason = record.get("wrong") or record.get("refused")
            if reason:
                told = "differs from opfuse" if "wrong" in record else "not taken"
                lines.append(f"- {label(model)}, {results['titles'][name]}: {told}: {reason}")
    return "\n".join(lines)


def groups(results):
    """(threads, batch) to models, in the order of measuring."""
    found = {}
    for model in results["models"]:
        found.setdefault((model["threads"], model["batch"]), []).append(model)
    return found


def over_floor(model, results):
    """opfuse's time over the floor of bench/floors.json at this probe, None where none is known."""
    floors = json.loads(FLOORS.read_text())
    floor = floors["ms"].get(model["name"].removesuffix(".raw"))
    own = figures(model["runtimes"]["opfuse"], best_probe(model, results))
    if floor is None or own is None or (model["threads"], model["batch"]) != (1, 1):
        return None
    return own["min"] / (floor * floors["probe_gflops"] / best_probe(model, results))


def floor_line(models, results):
    found = [(label(model), over_floor(model, results)) for model in usable(models, results)]
    told = ", ".join(f"{text} {over:.2f}" for text, over in found if over is not None)
    return f"Times the floor of bench/floors.json, at the best probe of {results['best_probe']['1']:.1f} GFLOP/s: {told}.\n" if told else ""


def slower(models, peers, results):
    lines = []
    found = [(label(model), ratios(model, results, "min")) for model in usable(models, results)]
    for name in peers:
        worse = [f"{text} ({low[name]:.2f})" for text, low in found if low.get(name, 1) < 1]
        lines += [f"Slower than {results['titles'][name]}: {', '.join(worse)}."] if worse else []
    return "\n\n".join(lines)


def title_of(threads, batch):
    return f"{threads} thread{'' if threads == 1 else 's'}, batch {batch}"


def markdown(results):
    peers = [name for name in results["titles"] if name != "opfuse"]
    told = ", ".join(f"{results['titles'][name]} {version}" for name, version in results["versions"].items())
    parts = [HEAD.format(processor=results["processor"], date=results["date"], versions=told or "No other runtime")]
    for (threads, batch), models in groups(results).items():
        parts += [f"## {title_of(threads, batch)}\n", wall_table(models, peers, results), slower(models, peers, results)]
        parts += [floor_line(models, results)]
        parts += ["CPU time, ratios of minima:\n", cpu_table(models, peers, results)]
        parts += ["From load to the first result in a new process, and peak memory above that before loading (programs and their\n"
                  "libraries, once started, count for nobody): opfuse's, and the ratios of the others. Converted files are loaded, not converted.\n", open_table(models, peers, results)]
        parts += [reasons(models, results)]
    parts += ["Failed:\n\n" + "\n".join(f"- {line}" for line in results["failed"])] if results["failed"] else []
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


# ---- files ----

def plot(models, peers, results, path):
    """Bars of ratios by model and runtime, logarithmic: as far right of 1 as left is as much faster as slower."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "opfuse"
    from matplotlib import pyplot, ticker

    shown = [(m, ratios(m, results, "min")) for m in models]
    height = 0.8 / max(1, len(peers))
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + len(shown) * max(0.3, 0.14 * len(peers))), layout="constrained")
    for index, name in enumerate(peers):
        points = [(row + index * height, found[name]) for row, (_, found) in enumerate(shown) if name in found]
        if points:
            rows, values = zip(*points)
            axes.barh(rows, [value - 1 for value in values], height, left=1, label=results["titles"][name])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks([row + height * (len(peers) - 1) / 2 for row in range(len(shown))], [label(m) for m, _ in shown])
    axes.invert_yaxis()
    axes.set_xlabel("time of the other over time of opfuse (minima); right of 1: opfuse is faster")
    axes.set_title(title_of(models[0]["threads"], models[0]["batch"]))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    figure.savefig(path.with_suffix(".png"), dpi=120)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)


def write_json(results, folder):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1)
    partial = folder / "results.json.partial"
    partial.write_text(text + "\n")
    partial.replace(folder / "results.json")


def write(results, folder):
    if not results["models"]:
        return
    write_json(results, folder)
    (folder / "results.md").write_text(markdown(results))
    peers = [name for name in results["titles"] if name != "opfuse"]
    try:
        for (threads, batch), models in groups(results).items():
            plot(models, peers, results, folder / f"ratios-threads{threads}-batch{batch}")
    except ImportError:
        print("report: no plots: no Python package matplotlib", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(json.loads((pathlib.Path(sys.argv[1]) / "results.json").read_text()), pathlib.Path(sys.argv[1]))
