"""How much of two workers' loss is the machine's: the step of one worker alone, of two that know nothing of each other at the same time, and of two that train together (`data`, shm), by turns.

Two strangers share cores' caches, clock and memory and exchange nothing: what they lose against one alone no way of distributing gives back, and efficiency cannot be above it.

usage: company.py [--rounds 3] [--networks WORD,…] [--precisions fp32,bf16]      networks as bench/training.py names them
prints a table in Markdown; build/bench/company.json has every step's median
"""
import argparse
import itertools
import statistics
from concurrent.futures import ThreadPoolExecutor

from common import interleaved, machine, machine_line, ratio, record, said, save
from training_cases import CASES, dataset_of, model_of

STEPS = {"smallcnn": 300, "resnet18": 16, "resnet50": 12, "resnet50-16": 6, "mobilenetv2": 24, "vgg11": 40, "alexnet": 16, "transformer": 6, "gpt": 4}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--networks", default=",".join(STEPS))
    options.add_argument("--precisions", default="fp32")
    options = options.parse_args()
    lines, kept = [], {}
    for network, precision in itertools.product(options.networks.split(","), options.precisions.split(",")):
        case, batch, steps = CASES[network], CASES[network]["batch"], STEPS[network]
        base = ["--model", model_of(case), "--dataset", dataset_of(case), "--precision", precision, "--synthetic", "--train-samples", 256, "--test-samples", 16, "--no-evaluate", "--trace", "off", "--steps", steps]

        def step_of(workers, pin):
            return record(*base, "--workers", workers, "--batch", batch * workers, "--strategy", "single" if workers == 1 else "data", "--pin", pin)["step_ms"]["median"]

        def measure(how):
            if how != "strangers":
                return step_of(*how)
            # Each would bind itself to the same core.
            with ThreadPoolExecutor(2) as both:
                return statistics.fmean(both.map(lambda _: step_of(1, "off"), range(2)))

        results = interleaved({"alone": (1, "auto"), "two strangers": "strangers", "two together": (2, "auto")}, options.rounds, measure)
        kept[f"{network} {precision}"] = results
        lines.append(f"| {network}, {batch}, {precision} | " + " | ".join(f"{statistics.median(results[arm]):.4g}" for arm in results) +
                     f" | {said(ratio(results['alone'], results['two strangers']))} | {said(ratio(results['alone'], results['two together']))} | {said(ratio(results['two strangers'], results['two together']))} |")
    here = machine()
    save("company", {"machine": here, "steps_ms": kept})
    print(machine_line(here))
    print("| network, samples a worker | alone, ms | two strangers | two together | efficiency of strangers | of two together | strangers over together |\n|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
