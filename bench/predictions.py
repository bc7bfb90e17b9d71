"""Predictions made before runs, against those runs: this machine measured once, then experiments over strategies, networks, transports and a test network that had no part in that.

  calibrate   probe comm (two ranks and eight), once, and probe compute (networks by layers at three batches each, contention and jitter of two at once), before each round and after the last,
              into a profile of its own: a machine that others share drifts, and the profile keeps what each time said
  run         every experiment in turn, A B … then … B A, a second or two each
              What is measured while a hypervisor gave more than a hundredth of the machine's time to others, or while fixed work before or after took more than 6 % longer than at best (pulse.py), is measured again,
              up to --tries times, layers and runs alike; of those the least disturbed counts. That looks at the machine alone, not at what was predicted
  predict     from that profile; no run of the experiments has a part in it
  report      error of the median over rounds; MAPE, bias, largest, Kendall tau, how many lie inside the interval; the same by group; and which part of the step is off where it is

usage: predictions.py [--rounds 2] [--seconds 2] [--only WORD,…] [--profile FILE] [--keep-profile] [--again]
prints tables in Markdown; build/bench/predictions.json has every row. Run it on a quiet machine: the table says how busy it was. A fabric takes root
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from common import BINARY, ROOT, machine, save
from pulse import CALM, Pulse

GPT = "gpt[hidden=128,layers=4,heads=4,dropout=0]"
TRANSFORMER = "transformer[hidden=128,layers=2,heads=4,dropout=0]"
MLP = "mlp[hidden=1024,layers=4]"
DATASETS = {"mlp": "fashion-mnist", "lenet": "fashion-mnist", "smallcnn": "cifar10", "resnet18": "cifar10", "mobilenetv2": "cifar10", "gpt": "language", "transformer": "translation"}
# Networks, and batches at which their layers are measured. Experiments run at others, or in parts of these.
CALIBRATED = [([MLP, "lenet"], "4,16,64"), (["smallcnn"], "4,16,64"), (["mobilenetv2", "resnet18"], "1,4,16"), ([GPT], "1,4,16"), ([TRANSFORMER], "1,4,16")]
STOLEN = 0.01  # of the time that a hypervisor gave to others: as bad as a pulse that is not calm
FABRIC = "hosts=2,bandwidth=1Gbps"
SLOW_FABRIC = "hosts=2,bandwidth=1Gbps,latency=200us"


def case(model, batch, strategy="data", workers=2, transport="shm", **more):
    return {"model": model, "batch": batch, "strategy": strategy, "workers": workers, "transport": transport, **more}


CASES = [
    # One worker: what layers come to.
    *(case(model, batch, "single", 1) for model, batch in
      [("lenet", 48), ("lenet", 6), (MLP, 32), ("smallcnn", 24), ("mobilenetv2", 6), ("resnet18", 2), ("resnet18", 8), (GPT, 6), (TRANSFORMER, 6), (GPT, 12)]),
    # Replicas: transports, collectives, buckets.
    *(case(model, batch, transport=transport) for transport in ("shm", "tcp") for model, batch in
      [("lenet", 96), (MLP, 64), ("smallcnn", 48), ("mobilenetv2", 12), ("resnet18", 8), (GPT, 12), (TRANSFORMER, 12)]),
    case("resnet18", 8, "data[collective=ring]", transport="tcp"), case("resnet18", 8, "data[collective=direct]"),
    case("resnet18", 8, "data[overlap=off]"), case("resnet18", 8, "data[overlap=off]", transport="tcp"), case("resnet18", 8, "data[bucket=4MiB]", transport="tcp"),
    case(MLP, 64, "data[bucket=1MiB,first-bucket=1MiB]"), case(MLP, 64, "data[overlap=off]", transport="tcp"), case(GPT, 12, "data[bucket=256KiB]"),
    case("mobilenetv2", 16, "data", accumulate=2),
    # Threads of one process.
    *(case(model, batch, "data[in-process=mirrored]", transport="inproc") for model, batch in [("lenet", 96), ("resnet18", 8), (GPT, 12)]),
    case("resnet18", 8, "data[in-process=parallel]", transport="inproc"),
    # Layers over workers, and pipelines.
    case("resnet18", 6, "model"), case(MLP, 48, "model", transport="tcp"),
    *(case("resnet18", 12, f"pipeline[schedule={schedule},micro=4]") for schedule in ("gpipe", "1f1b", "interleaved-1f1b", "zb-h1")),
    case("smallcnn", 48, "pipeline[schedule=gpipe,micro=4]", transport="tcp"), case("smallcnn", 48, "pipeline[schedule=1f1b,micro=8]"),
    *(case(GPT, 16, f"pipeline[schedule={schedule},micro=4]", transport=transport) for schedule, transport in
      [("gpipe", "shm"), ("1f1b", "tcp"), ("looped-bfs", "shm"), ("zbv", "shm")]),
    case("smallcnn", 48, "pipeline[schedule=pipedream]"), case("smallcnn", 48, "pipeline[schedule=pipedream-2bw,micro=4]"),
    # Layers in parts.
    case(GPT, 6, "tensor"), case(GPT, 6, "tensor", transport="tcp"), case(TRANSFORMER, 6, "tensor"), case("smallcnn", 24, "tensor"), case("resnet18", 4, "tensor[split=height]"),
    # What every replica need not hold.
    *(case("resnet18", 8, f"sharded[level={level}]") for level in (1, 2, 3)), case(GPT, 12, "sharded[level=2]", transport="tcp"), case(MLP, 64, "sharded[level=3]"),
    # Replicas that meet now and then, and servers.
    case("lenet", 96, "local[every=8]"), case("resnet18", 8, "local[every=4]", transport="tcp"), case(GPT, 12, "local[every=4,average=gossip]"),
    case("lenet", 96, "parameter-server"), case(MLP, 64, "parameter-server", transport="tcp"), case("resnet18", 8, "parameter-server"), case("smallcnn", 48, "parameter-server[async]"),
    # A network between hosts.
    case("lenet", 96, transport="tcp", fabric=FABRIC), case("resnet18", 8, transport="tcp", fabric=FABRIC), case("mobilenetv2", 12, transport="tcp", fabric=FABRIC),
    case(GPT, 12, transport="tcp", fabric=SLOW_FABRIC), case("smallcnn", 48, "pipeline[schedule=1f1b,micro=4]", transport="tcp", fabric=SLOW_FABRIC),
    case(GPT, 12, "data[overlap=off]", transport="tcp", fabric=FABRIC),
    # Optimizers.
    case("resnet18", 4, "single", 1, optimizer="adam"), case(GPT, 12, optimizer="adam"),
    # Emulated workers, as slow as two cores can exchange for so many.
    *(case("lenet", 96, workers=f"emulated:v100[slow=40]:{count}") for count in (2, 4, 8, 16, 32)),
    *(case(GPT, 32, workers=f"emulated:k80[slow=20]:{count}") for count in (4, 8)),
    case("lenet", 96, workers="emulated:v100[slow=40]:8", transport="tcp"), case("lenet", 96, workers="emulated:v100[slow=40]:1,emulated:v100[slow=80]:3"),
    case("lenet", 96, "local[every=8]", "emulated:v100[slow=40]:8"), case("smallcnn", 48, "parameter-server", "emulated:v100[slow=40]:4"), case("smallcnn", 48, "sharded[level=2]", "emulated:v100[slow=40]:4"),
    *(case(GPT, 32, f"pipeline[schedule={schedule},micro=8]", "emulated:k80[slow=20]:4") for schedule in ("gpipe", "1f1b", "zb-h1")),
    case(GPT, 16, "tensor", "emulated:k80[slow=20]:2"), case(GPT, 32, "hybrid[data=2,pipeline=2,tensor=2]", "emulated:k80[slow=20]:8"),
]


def name_of(one):
    more = ", ".join(f"{key}={value}" for key, value in one.items() if key not in ("model", "batch", "strategy", "workers", "transport"))
    return f"{one['model']}, {one['batch']}, {one['strategy']}, {one['workers']}" + (f", {one['transport']}" if one["workers"] != 1 else "") + (f", {more}" if more else "")


def arguments_of(one):
    words = ["--dataset", DATASETS[one["model"].split("[")[0]], "--synthetic", "--train-samples", max(256, 8 * one["batch"]), "--test-samples", 64, "--no-evaluate", "--learning-rate", 1e-4]
    for key, value in one.items():
        words += [f"--{key}", value]
    return list(map(str, words))


def ddlbench(profile, *words):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([BINARY, *map(str, words)], cwd=folder, capture_output=True, text=True, env={**os.environ, "DDLBENCH_MACHINE": str(profile)})


def calibrate_wires(profile):
    profile.unlink(missing_ok=True)
    for transports, ranks, budget in ("shm,tcp,inproc", "2", "60ms"), ("shm,tcp", "8", "20ms"):
        begun = time.monotonic()
        done = ddlbench(profile, "probe", "comm", "--transport", transports, "--ranks", ranks, "--budget", budget, "--json")
        if done.returncode != 0:
            sys.exit(f"probe comm ended with {done.returncode}: {done.stderr}")
        print(f"  wires of {ranks} ranks measured in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)


def calibrate(profile, budget, pulse, tries):
    begun, worst = time.monotonic(), 0
    for models, batches in CALIBRATED:

        def probe():
            done = ddlbench(profile, "probe", "compute", "--model", ",".join(models), "--dataset", DATASETS[models[0].split("[")[0]], "--batch", batches, "--budget", budget, "--json")
            if done.returncode != 0:
                sys.exit(f"probe compute ended with {done.returncode}: {done.stderr}")

        worst = max(worst, pulse.undisturbed(probe, tries, files=[profile])[1])
    print(f"  layers measured in {time.monotonic() - begun:.0f} s, slowed by at most {worst:.1%}", file=sys.stderr, flush=True)


def run(one, profile, steps):
    done = ddlbench(profile, "run", "--json", "--quiet", "--store", "none", "--trace", "off", "--steps", steps, *arguments_of(one))
    try:
        record = json.loads(done.stdout)
    except ValueError:
        return {"failed": done.stderr.strip()}
    if record["state"] != "ok":
        return {"failed": record["reason"]}
    ledgers = [rank["ledger_ms"] for rank in record["ranks"]]
    return {"measured_ms": record["prediction"].get("measured_ms"), "before": {key: record["prediction"].get(key) for key in ("step_ms", "low", "high")}, "step_ms": {key: record["step_ms"][key] for key in ("median", "low", "high")},
            "ledger_ms": {cause: statistics.mean(ledger[cause] for ledger in ledgers) for cause in ledgers[0]}, "wall_ms": statistics.mean(rank["wall_ms"] for rank in record["ranks"]),
            "load": os.getloadavg()[0], "stolen": max((rank["cores"] or {}).get("stolen_share", 0) for rank in record["ranks"])}


def least_disturbed(one, profile, steps, pulse, tries):
    found, slowed = pulse.undisturbed(lambda: run(one, profile, steps), tries, lambda result: result.get("stolen", 0) * CALM / STOLEN)
    return {**found, "slowed": slowed}


def predict(one, profile):
    done = ddlbench(profile, "predict", "--json", *arguments_of(one))
    return (json.loads(done.stdout)["points"] if done.stdout else [{}])[0]


def steps_for(one, profile, budget):
    """As many as last so long; the median needs a dozen."""
    return max(14, min(1000, round(budget * 1e3 / predict(one, profile).get("step_ms", {}).get("value", 100))))


def given(one, prediction, runs):
    """What would be predicted had it been known what the machine's passes take while these runs go on: forward, backward, copies and updates as measured, the rest as predicted. What is left of the error is of
    communication, waiting and schedules. No prediction: it knows the answer's larger part."""
    parts = ("forward", "backward", "copy", "update")
    told = prediction["ledger_ms"]
    computed = statistics.median(sum(each["ledger_ms"][part] for part in parts) for each in runs)
    factor = computed / max(1e-9, sum(told[part] for part in parts))
    # Bubbles are made of others' passes.
    return computed + told["bubble"] * factor + sum(ms for part, ms in told.items() if part not in (*parts, "bubble"))


def before(runs):
    """What each run predicted of itself before its first step, from what was measured until then, and with the cut between layers that it has: error, %, median of the runs, and how many of them lay inside."""
    told = [each for each in runs if each["before"]["step_ms"]]
    if not told:
        return None, None
    return (statistics.median(100 * (each["before"]["step_ms"] / each["measured_ms"] - 1) for each in told),
            statistics.mean(each["before"]["low"] <= each["measured_ms"] <= each["before"]["high"] for each in told))


def kendall(pairs):
    """Tau-b."""
    agree = ties_a = ties_b = total = 0
    for i, (a, b) in enumerate(pairs):
        for c, d in pairs[:i]:
            x, y = (a > c) - (a < c), (b > d) - (b < d)
            agree, ties_a, ties_b, total = agree + x * y, ties_a + (x == 0), ties_b + (y == 0), total + 1
    return agree / ((total - ties_a) * (total - ties_b)) ** 0.5 if total > max(ties_a, ties_b) else float("nan")


def summary(rows):
    errors = [row["error_pct"] for row in rows]
    told = [row for row in rows if row["before_pct"] is not None]
    return {"rows": len(rows), "given": statistics.mean(abs(row["given_pct"]) for row in rows), "median": statistics.median(map(abs, errors)), "mape": statistics.mean(map(abs, errors)), "max": max(map(abs, errors)), "bias": statistics.mean(errors),
            "tau": kendall([(row["predicted_ms"], row["measured_ms"]) for row in rows]), "inside": sum(row["low"] <= row["measured_ms"] <= row["high"] for row in rows) / len(rows),
            "before": statistics.mean(abs(row["before_pct"]) for row in told) if told else float("nan"), "before_inside": statistics.mean(row["before_inside"] for row in told) if told else float("nan")}


def groups_of(rows):
    for key, of in {"strategy": lambda row: row["strategy"].split("[")[0], "network": lambda row: row["model"].split("[")[0],
                    "transport": lambda row: "emulated workers" if "emulated" in str(row["workers"]) else "one worker" if row["workers"] == 1 else row["transport"] + (" on a fabric" if "fabric" in row else "")}.items():
        for value in dict.fromkeys(of(row) for row in rows):
            yield f"{key} {value}", [row for row in rows if of(row) == value]


def off(row):
    """Parts of the step, as predicted less as measured, ms: the two that are furthest off."""
    parts = {cause: row["predicted_ledger_ms"][cause] - row["ledger_ms"][cause] for cause in row["ledger_ms"]}
    return ", ".join(f"{cause} {ms:+.3g}" for cause, ms in sorted(parts.items(), key=lambda item: -abs(item[1]))[:3])


def show(rows, failed, loads):
    print(f"\n{len(rows)} experiments; load average {min(loads):.1f} to {max(loads):.1f}\n\n| group | rows | MAPE | largest | bias | tau | inside | median | predicted before each run | inside | given its computing |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for name, group in [("all", rows), *groups_of(rows)]:
        told = summary(group)
        print(f"| {name} | {told['rows']} | {told['mape']:.1f} % | {told['max']:.1f} % | {told['bias']:+.1f} % | {told['tau']:.3f} | {told['inside']:.0%} | {told['median']:.1f} % | {told['before']:.1f} % | {told['before_inside']:.0%} | {told['given']:.1f} % |")
    print("\n| experiment | measured, ms | predicted | error | before | given its computing | stolen | slowed | parts off, ms |\n|---|---|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: -abs(row["error_pct"])):
        print(f"| {row['name']} | {row['measured_ms']:.4g} | {row['predicted_ms']:.4g} ({row['low']:.4g} to {row['high']:.4g}) | {row['error_pct']:+.1f} % | {row['before_pct'] or float('nan'):+.1f} % | {row['given_pct']:+.1f} % | {row['stolen']:.1%} | {row['slowed']:.1%} | {off(row)} |")
    for name, why in failed.items():
        print(f"\n{name}: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2, help="that each run's steps are to last")
    parser.add_argument("--budget", default="1s", help="of each measurement of probe compute")
    parser.add_argument("--only", default="", help="words, with commas between: experiments that have one of them in their name")
    parser.add_argument("--profile", type=pathlib.Path, default=ROOT / "build/bench/predictions_machine.json")
    parser.add_argument("--keep-profile", action="store_true", help="do not measure the machine again")
    parser.add_argument("--tries", type=int, default=4)
    parser.add_argument("--keep-wires", action="store_true", help="probe comm's part of the profile is there already")
    parser.add_argument("--again", action="store_true", help="no runs: predict what the last run of this script measured")
    chosen = parser.parse_args()
    profile = chosen.profile.resolve()
    profile.parent.mkdir(parents=True, exist_ok=True)
    cases = {name_of(one): one for one in CASES if any(word in name_of(one) for word in chosen.only.split(","))}
    if not cases:
        parser.error(f"--only: got {chosen.only}: no experiment has that in its name")
    measure = not chosen.again and not (chosen.keep_profile and profile.exists())
    pulse = None if chosen.again else Pulse()
    if measure:
        if not (chosen.keep_wires and profile.exists()):
            calibrate_wires(profile)
        calibrate(profile, chosen.budget, pulse, chosen.tries)
    runs, failed = {name: [] for name in cases}, {}
    if chosen.again:
        earlier = json.loads((ROOT / "build/bench/predictions.json").read_text())
        rows = {row["name"]: row for row in earlier["rows"] if row["name"] in cases}
        runs, steps = ({name: row[what] for name, row in rows.items()} for what in ("runs", "steps"))
        cases = {name: cases[name] for name in runs}
    else:
        steps = {name: steps_for(one, profile, chosen.seconds) for name, one in cases.items()}
    for number in range(0 if chosen.again else chosen.rounds):
        begun = time.monotonic()
        for name in list(cases) if number % 2 == 0 else reversed(list(cases)):
            if name in failed:
                continue
            found = least_disturbed(cases[name], profile, steps[name], pulse, chosen.tries)
            if "failed" in found or not found["measured_ms"]:
                failed[name] = found.get("failed") or "nothing was measured"
                print(f"  {name}: {failed[name]}", file=sys.stderr, flush=True)
                continue
            runs[name].append(found)
            print(f"  round {number + 1}/{chosen.rounds} {name}: {found['measured_ms']:.4g} ms, load {found['load']:.1f}, stolen {found['stolen']:.1%}, slowed by {found['slowed']:.1%}", file=sys.stderr, flush=True)
        print(f"  a round took {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        if measure:
            calibrate(profile, chosen.budget, pulse, chosen.tries)
    rows = []
    for name, one in cases.items():
        if not runs[name] or name in failed:
            continue
        prediction, measured = predict(one, profile), statistics.median(each["measured_ms"] for each in runs[name])
        if "step_ms" not in prediction:
            failed[name] = prediction.get("reason", "no prediction")
            continue
        step, (before_pct, before_inside) = prediction["step_ms"], before(runs[name])
        rows.append({**one, "name": name, "steps": steps[name], "measured_ms": measured, "predicted_ms": step["value"], "low": step["low"], "high": step["high"],
                     "error_pct": 100 * (step["value"] / measured - 1), "before_pct": before_pct, "before_inside": before_inside, "stolen": min(each.get("stolen", 0) for each in runs[name]), "slowed": min(each.get("slowed", 0) for each in runs[name]), "given_pct": 100 * (given(one, prediction, runs[name]) / measured - 1), "predicted_ledger_ms": prediction["ledger_ms"],
                     "ledger_ms": {cause: statistics.median(each["ledger_ms"][cause] for each in runs[name]) for cause in runs[name][0]["ledger_ms"]}, "runs": runs[name]})
    if not rows:
        sys.exit("nothing was predicted and measured: " + "; ".join(f"{name}: {why}" for name, why in failed.items()))
    save("predictions", {"machine": machine(), "profile": str(profile.name), "summary": summary(rows), "rows": rows, "failed": failed})
    show(rows, failed, [each["load"] for row in rows for each in row["runs"]])


if __name__ == "__main__":
    main()
