"""How exactly emulated workers wait: what steps of waits take against what the profile says, by workers and profile, beside how loaded the machine was.

For each case three runs by turns with all others; the figures are medians over these. `taken longer` is the worst rank's late_share, lateness the median rank's median and the worst rank's p95, as records have them (docs/emulated.md).

usage: emulated.py [--rounds 3]
prints a table in Markdown; build/bench/emulated.json has every rank of every run
"""
import argparse
import statistics

from common import interleaved, machine, machine_line, record, save

CASES = [("lenet", "fashion-mnist", "v100[slow=40]", (2, 8, 32), 20), ("lenet", "fashion-mnist", "k80[slow=40]", (16, 32), 20), ("lenet", "fashion-mnist", "k80[slow=400]", (16, 32), 10),
         ("resnet18", "cifar10", "v100", (2, 8, 32), 10)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    arms = {(model, profile, workers): ["--model", model, "--dataset", dataset, "--synthetic", "--train-samples", 2048, "--test-samples", 16, "--batch", 64, "--no-evaluate", "--trace", "off", "--strategy", "data",
                                        "--workers", f"emulated:{profile}:{workers}", "--steps", steps]
            for model, dataset, profile, counts, steps in CASES for workers in counts}
    kept = {arm: [] for arm in arms}

    def measure(arguments):
        arm = next(name for name, words in arms.items() if words is arguments)
        kept[arm].append([rank["emulation"] for rank in record(*arguments)["ranks"]])
        return 100 * max(rank["late_share"] for rank in kept[arm][-1])

    interleaved(arms, rounds, measure)
    here = machine()
    save("emulated", {"machine": here, "runs": [{"model": model, "profile": profile, "workers": workers, "ranks": runs} for (model, profile, workers), runs in kept.items()]})
    over_runs = lambda runs, figure: statistics.median(figure(ranks) for ranks in runs)
    print(machine_line(here))
    print("| | workers | profile, a step | taken longer | late, median | p95 | waits a step |\n|---|---|---|---|---|---|---|")
    for (model, profile, workers), runs in kept.items():
        asked = over_runs(runs, lambda ranks: ranks[0]["compute_ms"])
        longer = over_runs(runs, lambda ranks: 100 * max(rank["late_share"] for rank in ranks))
        late = over_runs(runs, lambda ranks: statistics.median(rank["late_us"]["median"] for rank in ranks))
        worst = over_runs(runs, lambda ranks: max(rank["late_us"]["p95"] for rank in ranks))
        steps = next(steps for m, _, p, counts, steps in CASES if (m, p) == (model, profile) and workers in counts)
        waits = over_runs(runs, lambda ranks: ranks[0]["waits"]) / steps
        print(f"| {model}, `{profile}` | {workers} | {asked:.1f} ms | {longer:.1f} % | {late:.1f} us | {worst / 1000:.2f} ms | {waits:.0f} |")


if __name__ == "__main__":
    main()
