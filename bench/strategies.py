"""Strategies beside the packages that have them, in one interleaved run (A B … then … B A): two workers of one thread each.

  pipelines   ours, torch.distributed.pipelining, torchgpipe 0.0.7            goal: 1.1 times the samples/s
  sharded     ours, FSDP2 on CPUs                                             1.1 times, with at most its memory
  tensor      ours, torch's parallelize_module                                1.1 times
  servers     our parameter server, the transport's own bandwidth             near it
  bubbles     our pipelines on equal stages, their schedules' ideals          within 5 %
What each compares, and how it is measured, stands in strategy_PART.py. The table of memory is strategy_memory.py.

usage: strategies.py [--parts A,B…] [--cases A,B…] [--rounds 3] [--steps N]
prints tables in Markdown; build/bench/strategies_PART.json has every step of every run. Run it on a quiet machine: tables say how busy it was
"""
import argparse
import json

import strategy_bubbles
import strategy_pipelines
import strategy_sharded
import strategy_servers
import strategy_tensor
from common import ROOT, machine, save
from strategy_arms import loads

PARTS = {"pipelines": strategy_pipelines, "sharded": strategy_sharded, "tensor": strategy_tensor, "servers": strategy_servers, "bubbles": strategy_bubbles}


def keep(name, result):
    """In the place of an earlier result of the same case; those of others stay."""
    path = ROOT / "build" / "bench" / f"{name}.json"
    earlier = json.loads(path.read_text())["results"] if path.exists() else []
    save(name, {"results": [each for each in earlier if each["case"] != result["case"]] + [result]})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="with commas between; all")
    parser.add_argument("--cases", help="of all parts, with commas between; all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of a run, after two of warm-up; each case has its own number")
    chosen = parser.parse_args()
    parts, known = chosen.parts.split(","), [case for part in PARTS.values() for case in part.CASES]
    wanted = chosen.cases.split(",") if chosen.cases else known
    for word, words, there in [(chosen.parts, parts, list(PARTS)), (chosen.cases, wanted, known)]:
        if unknown := [each for each in words if each not in there]:
            parser.error(f"got {word}: there is no {', '.join(unknown)}; expected some of {', '.join(dict.fromkeys(there))}")
    for name in parts:
        part, results = PARTS[name], []
        for case in part.CASES:
            if case not in wanted:
                continue
            results.append({**part.run(case, chosen.rounds, chosen.steps), "machine": machine()})
            keep(f"strategies_{name}", results[-1])
            part.show(results[-1])
            print(f"\n({loads(results[-1:])})", flush=True)


if __name__ == "__main__":
    main()
