"""How much of two workers' loss is the machine's: the step of one worker alone, of two that know nothing of each other at the same time, and of two that train together (`data`, shm), by turns.

Two strangers share cores' caches, clock and memory and exchange nothing: what they lose against one alone no way of distributing gives back, and efficiency cannot be above it.

usage: company.py [--rounds 3] [--networks WORD,…]
prints a table in Markdown; build/bench/company.json has every step's median
"""
import argparse
import statistics
from concurrent.futures import ThreadPoolExecutor

from common import interleaved, machine, machine_line, ratio, record, said, save

CASES = {"smallcnn": ("cifar10", 32, 300), "resnet18": ("cifar10", 32, 16), "resnet50": ("imagenet", 4, 12), "mobilenetv2": ("imagenet", 8, 24), "vgg11": ("cifar10", 32, 40), "alexnet": ("imagenet", 16, 16)}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--networks", default=",".join(CASES))
    options = options.parse_args()
    lines, kept = [], {}
    for network in options.networks.split(","):
        dataset, batch, steps = CASES[network]
        base = ["--model", network, "--dataset", dataset, "--synthetic", "--train-samples", 256, "--test-samples", 16, "--no-evaluate", "--trace", "off", "--steps", steps]

        def step_of(workers, pin):
            return record(*base, "--workers", workers, "--batch", batch * workers, "--strategy", "single" if workers == 1 else "data", "--pin", pin)["step_ms"]["median"]

        def measure(how):
            if how != "strangers":
                return step_of(*how)
            # Each would bind itself to the same core.
            with ThreadPoolExecutor(2) as both:
                return statistics.fmean(both.map(lambda _: step_of(1, "off"), range(2)))

        results = interleaved({"alone": (1, "auto"), "two strangers": "strangers", "two together": (2, "auto")}, options.rounds, measure)
        kept[network] = results
        lines.append(f"| {network}, {batch} | " + " | ".join(f"{statistics.median(results[arm]):.4g}" for arm in results) +
                     f" | {said(ratio(results['alone'], results['two strangers']))} | {said(ratio(results['alone'], results['two together']))} | {said(ratio(results['two strangers'], results['two together']))} |")
    here = machine()
    save("company", {"machine": here, "steps_ms": kept})
    print(machine_line(here))
    print("| network, samples a worker | alone, ms | two strangers | two together | efficiency of strangers | of two together | strangers over together |\n|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
