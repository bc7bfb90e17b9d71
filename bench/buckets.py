"""Steps with `bucket=auto` against each fixed size of gradients' buckets, and against exchanging them after backward, two workers: what the run's own choice comes to once it is made, how long it took to make, and what choosing the best by hand would have given.

All arms by turns. The last two thirds of a run's steps count, of all of them: auto's trials take a quarter at most. The median of those. `auto over best` is against the fixed way that was fastest over all rounds, which somebody who had tried all of them would take; `over standard` against 25 MiB.

usage: buckets.py [--rounds 3] [--only WORD,…]      a fabric takes root
prints a table in Markdown; build/bench/buckets.json has every run
"""
import argparse
import re
import statistics

from common import interleaved, machine, machine_line, ratio, record, said, save

MLP, GPT = "mlp[hidden=1024,layers=4]", "gpt[hidden=128,layers=4,heads=4,dropout=0]"
FABRIC = "hosts=2,bandwidth=10Gbps,latency=50us"
CASES = [(MLP, "fashion-mnist", 64, "shm", ""), (MLP, "fashion-mnist", 64, "tcp", ""), (MLP, "fashion-mnist", 64, "tcp", FABRIC), (GPT, "language", 12, "shm", ""), (GPT, "language", 12, "tcp", ""),
         ("resnet18", "cifar10", 8, "shm", ""), ("resnet18", "cifar10", 8, "tcp", ""), ("resnet18", "cifar10", 8, "tcp", FABRIC), ("vgg11[dropout=0]", "cifar10", 8, "shm", ""), ("alexnet[dropout=0]", "cifar10", 8, "shm", "")]
AFTER = "25MiB, after backward"
FIXED = ("1MiB", "6MiB", "25MiB", "1GiB", AFTER)  # the last but one: all in one
STEPS = 240


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", default="")
    options = options.parse_args()
    wanted = [word for word in re.split(r",(?![^\[]*\])", options.only) if word]  # what stands in brackets is one word
    kept, lines = [], []
    for model, dataset, batch, transport, fabric in CASES:
        name = f"{model}, {batch}, {transport}{', fabric ' + fabric if fabric else ''}"
        if wanted and not any(word in name for word in wanted):
            continue
        base = ["--model", model, "--dataset", dataset, "--synthetic", "--train-samples", 2048, "--test-samples", 16, "--batch", batch, "--workers", 2, "--transport", transport, "--no-evaluate", "--trace", "off", "--steps", STEPS]
        if fabric:
            base += ["--fabric", fabric]
        tunings = []

        def measure(bucket):
            got = record(*base, *(["--strategy", "data[overlap=off]"] if bucket == AFTER else ["--bucket", bucket]))
            tuning = got["bucket_tuning"]
            if (tuning is not None) != (bucket == "auto"):
                raise SystemExit(f"{name}: bucket={bucket}, but bucket_tuning is {tuning}")
            if tuning:
                tunings.append(tuning)
            spent = STEPS // 3
            if tuning and tuning["steps"] + 1 > spent:
                raise SystemExit(f"{name}: {tuning['steps']} steps of trials, expected {spent - 1} at most")
            return statistics.median(got["step_ms"]["samples"][spent:])

        results = interleaved({bucket: bucket for bucket in ("auto", *FIXED)}, options.rounds, measure)
        best = min(FIXED, key=lambda bucket: statistics.median(results[bucket]))
        over_best, over_standard = ratio(results["auto"], results[best]), ratio(results["auto"], results["25MiB"])
        taken = [f"{tuning['taken'] / 2**20:.3g}{'' if tuning['overlap'] else ' after'}" for tuning in tunings]
        kept.append({"case": name, "results": results, "tunings": tunings})
        lines.append(f"| {name} | {statistics.median(results['auto']):.4g} ms | " + " | ".join(f"{statistics.median(results[bucket]):.4g}" for bucket in FIXED) +
                     f" | {said(over_best)} ({best}) | {said(over_standard)} | {', '.join(taken)} MiB | {statistics.median(tuning['steps'] for tuning in tunings):.0f} |")
    here = machine()
    save("buckets", {"machine": here, "cases": kept})
    print(machine_line(here))
    print("| two workers | auto | " + " | ".join("all in one" if bucket == "1GiB" else bucket for bucket in FIXED) + " | auto over best | over standard | taken | steps of trials |")
    print("|---|---|" + "---|" * (len(FIXED) + 4))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
