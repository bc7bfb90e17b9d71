"""Memory of strategies, planned and measured, and who uses least: the same global batch, two workers (`single`: one), Adam, fp32.

Planned is what the plan says that a worker holds at its peak, part by part (`plan.roles[].holds` of records); measured is what tensors and the
transport's memory took (`ranks[].memory_bytes`): activations as the allocator's peak less what was there before the first step. The process's own
high-water mark, less that of a network of nothing by the same strategy, is shown beside it: what no tensor explains. Of workers that differ the one that
holds most counts. Nothing here depends on how busy the machine is.

usage: strategy_memory.py [--networks A,B…] [--strategies A,B…] [--steps 3]
prints tables in Markdown; build/bench/strategy_memory.json has every figure of every worker
"""
import argparse
import datetime
import sys

from common import machine, save
from strategy_arms import ours

PARTS = ("parameters", "gradients", "optimizer", "buckets", "activations")
NETWORKS = {
    # Activations are most of it; parameters and activations alike; parameters are most of it.
    "resnet50": {"model": "resnet50", "options": {}, "dataset": "imagenet[size=64]", "batch": 32},
    "gpt": {"model": "gpt", "options": {"hidden": "512", "layers": "6", "heads": "8", "dropout": "0"}, "dataset": "language[vocabulary=8000,length=129]", "batch": 16},
    "alexnet": {"model": "alexnet", "options": {"dropout": "0"}, "dataset": "imagenet[size=224]", "batch": 32},
}
NOTHING = {"model": "null", "options": {"ms": "0", "layers": "4"}, "dataset": "mnist", "batch": 4}
STRATEGIES = {
    "single": "single", "data": "data",
    # Cut by what is the same on every machine: measured layers depend on how busy it is.
    "model": "model[balance=flops]", "model, balance=memory": "model[balance=memory]",
    "gpipe": "pipeline[schedule=gpipe,micro=4,balance=flops]", "gpipe, balance=memory": "pipeline[schedule=gpipe,micro=4,balance=memory]",
    "1f1b": "pipeline[schedule=1f1b,micro=4,balance=flops]", "1f1b, balance=memory": "pipeline[schedule=1f1b,micro=4,balance=memory]",
    "sharded 1": "sharded[level=1]", "sharded 2": "sharded[level=2]", "sharded 3": "sharded[level=3]",
    "tensor": "tensor",
}


def planned_of(record, rank):
    """None where the build does not write it."""
    for role in record["plan"]["roles"]:
        if role["first"] <= rank < role["first"] + role["count"]:
            return role.get("holds")
    raise KeyError(f"no role has worker {rank}")


def measure(network, strategy, steps):
    workers = 1 if strategy == "single" else 2
    done = ours({**network, "steps": steps}, strategy, workers, extra=("--trace", "recent", "--optimizer", "adam"))["record"]
    ranks = [{"planned": planned_of(done, rank["rank"]), "measured": {part: rank["memory_bytes"][part] for part in PARTS}, "all": rank["memory_bytes"]} for rank in done["ranks"]]
    if any(rank["planned"] is None for rank in ranks):
        sys.exit("records of this build have no plan.roles[].holds; a newer one is needed")
    return ranks


def total(holds):
    return sum(holds[part] for part in PARTS)


def off(planned, measured):
    return f"{100 * (planned / measured - 1):+.1f} %" if measured else "-" if not planned else "only planned"


def show(name, network, runs, nothing):
    options = ",".join(f"{key}={value}" for key, value in network["options"].items())
    print(f"\n{network['model']}{f'[{options}]' if options else ''} on {network['dataset']}, global batch {network['batch']}, Adam, fp32; MB of 10^6 bytes, of the worker that holds most\n\n"
          "| strategy | planned | measured | planned off by | of all workers together | process |\n|---|---|---|---|---|---|")
    measured = {}
    for strategy, ranks in runs.items():
        planned, measured[strategy] = max(total(rank["planned"]) for rank in ranks), max(total(rank["measured"]) for rank in ranks)
        process = max(rank["all"]["kernel_peak"] - base["all"]["kernel_peak"] for rank, base in zip(ranks, nothing[strategy]))
        print(f"| `{strategy}` | {planned / 1e6:,.1f} | {measured[strategy] / 1e6:,.1f} | {off(planned, measured[strategy])} | {sum(total(rank['measured']) for rank in ranks) / 1e6:,.1f} | {process / 1e6:,.1f} |")
    order = sorted(measured, key=measured.get)
    print(f"\nLeast: {', then '.join(f'{each} ({measured[each] / 1e6:,.0f})' for each in order[:4])}; most: {order[-1]} ({measured[order[-1]] / 1e6:,.0f}).")
    print(f"\nBy parts, {name}, each worker, planned / measured:\n\n| strategy | worker | {' | '.join(PARTS)} |\n|---|---|{'---|' * len(PARTS)}")
    for strategy, ranks in runs.items():
        for number, rank in enumerate(ranks):
            cells = [f"{rank['planned'][part] / 1e6:,.1f} / {rank['measured'][part] / 1e6:,.1f}" for part in PARTS]
            print(f"| `{strategy}` | {number} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", default=",".join(NETWORKS), help="with commas between; all")
    parser.add_argument("--strategies", help="with ; between; all")
    parser.add_argument("--steps", type=int, default=3, help="after two of warm-up")
    chosen = parser.parse_args()
    names, wanted = chosen.networks.split(","), chosen.strategies.split(";") if chosen.strategies else list(STRATEGIES)
    for words, there in [(names, NETWORKS), (wanted, STRATEGIES)]:
        if unknown := [each for each in words if each not in there]:
            parser.error(f"there is no {', '.join(unknown)}; expected some of {', '.join(there)}")
    strategies = {each: STRATEGIES[each] for each in wanted}
    here = machine()
    print(f"{datetime.date.today()}")
    nothing = {each: measure(NOTHING, strategy, chosen.steps) for each, strategy in strategies.items()}
    results = {}
    for name in names:
        results[name] = {}
        for each, strategy in strategies.items():
            results[name][each] = measure(NETWORKS[name], strategy, chosen.steps)
            print(f"  {name}, {each}", file=sys.stderr, flush=True)
            save("strategy_memory", {"machine": here, "networks": NETWORKS, "strategies": STRATEGIES, "nothing": nothing, "results": results})
        show(name, NETWORKS[name], results[name], nothing)


if __name__ == "__main__":
    main()
