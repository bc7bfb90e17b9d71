"""Predictions made before runs, against those runs: this machine measured, then experiments over strategies, networks, transports and a test network that had no part in that.

  wires       probe comm, once: two ranks, of memory in caches, out of them, and of the heap; and as many as experiments have emulated workers
  blocks      network by network, as many times as --rounds says, there and back: probe compute measures the network (layers at three batches each, contention and jitter of two at once) into a fresh profile that has those wires;
              every experiment with it is predicted from that profile; then each is run, a second or two. So a prediction is made before its run, from what was measured minutes before
  pace        A machine that others share goes now faster, now slower, for seconds or hours. Fixed work (pulse.py) before and after each measurement tells its pace: a run at another pace than its network was measured at, or while a
              hypervisor gave more than a hundredth of the time to others, is made again, up to --tries times, of which the least disturbed counts; where the pace has changed for good the network is measured again. That looks at
              the machine alone, not at what was predicted
  report      error of the median over rounds; MAPE, bias, largest, Kendall tau, how many lie inside the interval; the same by group; and which part of the step is off where it is

Where a machine is never calm, nothing is gained by tries: `--calibrations 3 --tries 1` measures each network three times before all runs, into one profile (which takes the median, and widens intervals by how far they were apart), and holds
each prediction against the median of so many rounds of runs; a column tells the errors at the pace that each run had. With `--by-turns` measuring and running take turns instead: each round measures each network once more, into the
profile that it has, right before that network's runs, and again after every eight of them (--between), and the wires of two ranks before all of them, so that what drifts over half an hour is in both alike; every prediction is still made before its run, from what was measured before it.

usage: predictions.py [--rounds 2] [--seconds 2] [--tries 3] [--calibrations 3 | --by-turns [--between 8]] [--only WORD,…] [--keep-wires] [--hold]
prints tables in Markdown; build/bench/predictions.json has every row and every run. Run it on a quiet machine: the table says how disturbed it was. A fabric takes root
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from common import BINARY, ROOT, machine, save
from pulse import CALM, Pulse, apart, stolen

GPT = "gpt[hidden=128,layers=4,heads=4,dropout=0]"
TRANSFORMER = "transformer[hidden=128,layers=2,heads=4,dropout=0]"
MLP = "mlp[hidden=1024,layers=4]"
DATASETS = {"mlp": "fashion-mnist", "lenet": "fashion-mnist", "smallcnn": "cifar10", "resnet18": "cifar10", "mobilenetv2": "cifar10", "gpt": "language", "transformer": "translation"}
# Batches at which layers are measured. Passes of experiments are of others, or of parts.
CALIBRATED = {"lenet": "4,16,64", MLP: "4,16,64", "smallcnn": "4,16,64", "mobilenetv2": "1,5,16", "resnet18": "1,5,16", GPT: "1,5,16", TRANSFORMER: "1,5,16"}
# And what of their layers is left to a worker where they are split, by themselves.
PARTS = {"smallcnn": "tensor:2", "resnet18": "tensor[split=height]:2", GPT: "tensor:2", TRANSFORMER: "tensor:2"}
# Formats that its layers are measured in.
PRECISIONS = {"smallcnn": "fp32,bf16", GPT: "fp32,bf16"}
GOAL = {"rows": 60, "mape": 5, "inside": 0.9}  # of all experiments together
STOLEN = 0.01    # of the time that a hypervisor gave to others: as bad as another pace
MEASURED = 4     # times that a network is measured in a round, at most
LOST = 3         # runs in a row that were disturbed: the machine's pace is another now
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
    # Compressed gradients.
    case("resnet18", 8, "data[compress=fp16]", transport="tcp"), case(MLP, 64, "data[compress=int8]", transport="tcp"), case(GPT, 12, "data[compress=top-k]"), case("resnet18", 8, "data[compress=power-sgd]"),
    # Half precision, which is measured by itself.
    *(case(GPT, batch, strategy, workers, precision="bf16") for batch, strategy, workers in [(6, "single", 1), (12, "data", 2), (16, "pipeline[schedule=1f1b,micro=4]", 2)]), case("smallcnn", 48, precision="bf16"),
    # Ranks that mpirun starts, where the build has an MPI.
    *(case(model, batch, strategy, transport="mpi") for model, batch, strategy in
      [("lenet", 96, "data"), ("resnet18", 8, "data"), (GPT, 12, "data"), (GPT, 12, "data[collective=native]"), ("resnet18", 12, "pipeline[schedule=1f1b,micro=4]"), (GPT, 6, "tensor"), (MLP, 64, "sharded[level=2]")]),
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


# Transports, ranks, budget of each measurement, and where buffers lie.
WIRES = (("shm,tcp,inproc", "2", "60ms", "own"), ("shm,tcp", "8", "20ms", "own"), ("shm", "4,16,32", "20ms", "own"), ("shm,tcp", "2", "60ms", "outside"), ("shm,tcp", "2", "20ms", "evicted"))
MPI_WIRES = (("mpi", "2", "60ms", "own"), ("mpi", "2", "60ms", "outside"), ("mpi", "2", "20ms", "evicted"))


def mpi_missing():
    """Why nothing can be run over MPI; empty where it can."""
    with tempfile.TemporaryDirectory() as folder:
        done = ddlbench(pathlib.Path(folder) / "none.json", "run", "--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--steps", 1, "--workers", 2, "--transport", "mpi", "--store", "none", "--no-evaluate", "--quiet")
    return done.stderr.strip() or f"ended with {done.returncode}" if done.returncode != 0 else ""


def calibrate_wires(profile, of):
    for transports, ranks, budget, memory in of:
        begun = time.monotonic()
        # Only large buffers are ever priced as evicted.
        less = ["--sizes", "1MiB,4MiB,16MiB"] if memory == "evicted" else []
        # Of memory that is not the transport's, what layers exchange; of many ranks, and of what has left caches, no more.
        less += ["--collective", "all-reduce,all-gather,reduce-scatter,point-to-point"] if memory != "own" or "," in ranks else []
        done = ddlbench(profile, "probe", "comm", "--transport", transports, "--ranks", ranks, "--budget", budget, "--memory", memory, *less, "--json")
        if done.returncode != 0:
            sys.exit(f"probe comm ended with {done.returncode}: {done.stderr}")
        say(f"wires of {ranks} ranks, memory {memory}, measured in {time.monotonic() - begun:.0f} s")


def wires_again(wires, measured, of):
    """Those of two ranks, which most experiments have, once more: memory's pace drifts, too. Into all profiles that there are."""
    calibrate_wires(wires, [each for each in of if each[1] == "2"])
    known = json.loads(wires.read_text())["communication"]
    for profile, _ in measured.values():
        document = json.loads(profile.read_text())
        document["communication"] = known
        profile.write_text(json.dumps(document, indent=1))


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


class Watched:
    """What went on beside `body`: its result, the pace before and after, and by how much that was disturbed, 0 being not at all."""

    def __init__(self, pulse, body, pace=None):
        begun, before = stolen(), pulse.take()
        self.result = body()
        after, ended = pulse.take(), stolen()
        self.pace = (before + after) / 2
        self.stolen = (ended[0] - begun[0]) / max(1, ended[1] - begun[1])
        self.slowed = apart(before, after) if pace is None else max(apart(before, pace), apart(after, pace))
        self.disturbed = max(self.slowed, self.stolen * CALM / STOLEN)

    def calm(self):
        return self.disturbed <= CALM


def probed(model, profile, budget, pulse):
    words = ["probe", "compute", "--model", model, "--dataset", DATASETS[model.split("[")[0]], "--batch", CALIBRATED[model], "--precision", PRECISIONS.get(model, "fp32"), "--budget", budget, "--json"] + (["--parts", PARTS[model]] if model in PARTS else [])
    now = Watched(pulse, lambda: ddlbench(profile, *words))
    if now.result.returncode != 0:
        sys.exit(f"probe compute of {model} ended with {now.result.returncode}: {now.result.stderr}")
    return now


def calibrate(model, wires, profile, budget, pulse, tries):
    """A profile of that network, and the pace it was measured at."""
    kept, text = None, None
    begun = time.monotonic()
    for _ in range(tries):
        shutil.copyfile(wires, profile)
        now = probed(model, profile, budget, pulse)
        if kept is None or now.disturbed < kept.disturbed:
            kept, text = now, profile.read_bytes()
        if kept.calm():
            break
    profile.write_bytes(text)
    say(f"{model} measured in {time.monotonic() - begun:.0f} s at a pace of {1e3 * kept.pace:.3f} ms, disturbed by {kept.disturbed:.1%}")
    return kept


class Kept:
    """What a profile that was measured into several times was measured at: on the mean of them."""

    def __init__(self, times):
        self.times = times
        self.pace = statistics.median(each.pace for each in times)
        self.slowed = max(apart(each.pace, self.pace) for each in times)
        self.disturbed = max(self.slowed, *(each.disturbed for each in times))

    def calm(self):
        return self.disturbed <= CALM


def profile_of(model, wires):
    return wires.with_name(f"predictions_{re.sub('[^a-z0-9]+', '-', model)}.json")


def calibrate_all(models, wires, chosen, pulse):
    """{network: (profile, Kept)}: each measured so many times, one network after the other there and back, into one profile, which remembers what the earlier ones said."""
    times = {model: [] for model in models}
    profiles = {model: profile_of(model, wires) for model in models}
    for profile in profiles.values():
        shutil.copyfile(wires, profile)
    for number in range(chosen.calibrations):
        for model in models if number % 2 == 0 else models[::-1]:
            now = probed(model, profiles[model], chosen.budget, pulse)
            times[model].append(now)
            say(f"{model} measured, {number + 1} of {chosen.calibrations}, at a pace of {1e3 * now.pace:.3f} ms, disturbed by {now.disturbed:.1%}")
    return {model: (profiles[model], Kept(times[model])) for model in models}


def run(one, profile, steps):
    done = ddlbench(profile, "run", "--json", "--quiet", "--store", "none", "--trace", "off", "--steps", steps, *arguments_of(one))
    try:
        record = json.loads(done.stdout)
    except ValueError:
        return {"failed": done.stderr.strip()}
    if record["state"] != "ok":
        return {"failed": record["reason"]}
    if not record["prediction"].get("measured_ms"):
        return {"failed": "nothing was measured"}
    ledgers = [rank["ledger_ms"] for rank in record["ranks"]]
    return {"measured_ms": record["prediction"]["measured_ms"], "before": {key: record["prediction"].get(key) for key in ("step_ms", "low", "high")}, "step_ms": {key: record["step_ms"][key] for key in ("median", "low", "high")},
            "ledger_ms": {cause: statistics.mean(ledger[cause] for ledger in ledgers) for cause in ledgers[0]}, "wall_ms": statistics.mean(rank["wall_ms"] for rank in record["ranks"]), "load": os.getloadavg()[0]}


def least_disturbed(one, profile, steps, pulse, pace, tries):
    kept = None
    for number in range(tries):
        if tries > 1:
            pulse.await_pace(pace, 3 if number == 0 else 10)
        now = Watched(pulse, lambda: run(one, profile, steps), pace)
        if kept is None or now.disturbed < kept.disturbed:
            kept = now
        if kept.calm() or "failed" in kept.result:
            break
    return kept


def predict(one, profile):
    done = ddlbench(profile, "predict", "--json", *arguments_of(one))
    return (json.loads(done.stdout)["points"] if done.stdout else [{}])[0]


def steps_for(prediction, budget):
    """As many as last so long; the median needs a dozen."""
    return max(14, min(1000, round(budget * 1e3 / prediction["step_ms"]["value"])))


def measure_again(model, wires, chosen, pulse, measured):
    """Once more into the profile of that network, which remembers what the earlier ones said; right before its runs."""
    profile, known = measured.get(model, (profile_of(model, wires), None))
    if known is None:
        shutil.copyfile(wires, profile)
    times = [*(known.times if known else []), probed(model, profile, chosen.budget, pulse)]
    measured[model] = (profile, Kept(times))
    say(f"{model} measured, {len(times)}, at a pace of {1e3 * times[-1].pace:.3f} ms, disturbed by {times[-1].disturbed:.1%}")


def block(model, names, cases, number, chosen, wires, pulse, measured):
    """One round of a network's experiments, with the predictions made before them: {name: {"prediction", "run", …}}, and {name: why} of those that failed."""
    found, failed = {}, {}
    if chosen.by_turns:
        measure_again(model, wires, chosen, pulse, measured)
    for measurement in range(1 if measured else min(MEASURED, chosen.tries)):
        if measured:
            profile, known = measured[model]
        else:
            profile = wires.with_name(f"predictions_{number}_{re.sub('[^a-z0-9]+', '-', model)}_{measurement}.json")
            known = calibrate(model, wires, profile, chosen.budget, pulse, chosen.tries)
        lost = 0
        for place, name in enumerate([name for name in names if name not in failed and not (name in found and found[name]["calm"])]):
            if chosen.by_turns and place > 0 and place % chosen.between == 0:
                measure_again(model, wires, chosen, pulse, measured)
                profile, known = measured[model]
            prediction = predict(cases[name], profile)
            if "step_ms" not in prediction:
                failed[name] = prediction.get("reason", "no prediction")
                continue
            steps = steps_for(prediction, chosen.seconds)
            now = least_disturbed(cases[name], profile, steps, pulse, known.pace, chosen.tries)
            if "failed" in now.result:
                failed[name] = now.result["failed"]
                say(f"{name}: {failed[name]}")
                continue
            one = {"prediction": prediction, "steps": steps, "profile": profile.name, "run": now.result, "slower": now.pace / known.pace, "slowed": max(now.slowed, known.slowed), "stolen": now.stolen, "disturbed": max(now.disturbed, known.disturbed), "calm": now.calm() and known.calm()}
            if name not in found or one["disturbed"] < found[name]["disturbed"]:
                found[name] = one
            say(f"round {number + 1} {name}: {now.result['measured_ms']:.4g} ms, load {now.result['load']:.1f}, disturbed by {one['disturbed']:.1%}")
            lost = 0 if one["calm"] else lost + 1
            if lost == LOST and not measured and measurement + 1 < min(MEASURED, chosen.tries):
                break
        else:
            break
    return found, failed


def given(prediction, run):
    """What would be predicted had it been known what the machine's passes take while this run goes on: forward, backward, copies and updates as measured, the rest as predicted. What is left of the error is of
    communication, waiting and schedules. No prediction: it knows the answer's larger part."""
    parts = ("forward", "backward", "copy", "update")
    told = prediction["ledger_ms"]
    computed = sum(run["ledger_ms"][part] for part in parts)
    factor = computed / max(1e-9, sum(told[part] for part in parts))
    # Bubbles are made of others' passes.
    return computed + told["bubble"] * factor + sum(ms for part, ms in told.items() if part not in (*parts, "bubble"))


def at_pace(prediction, slower):
    """What would be predicted of a machine that goes so many times slower than when its layers were measured, as fixed work told before and after the run: what passes take, and bubbles, which are made of others'. It knows nothing of the
    run itself; how far another pace of the machine is what a prediction is off by."""
    told = prediction["ledger_ms"]
    return sum(told.values()) + (slower - 1) * sum(told[part] for part in ("forward", "backward", "copy", "update", "bubble"))


def before(rounds):
    """What each run predicted of itself before its first step, with the cut between layers that it has: error, %, median of the rounds, and how many of them lay inside."""
    told = [each["run"] for each in rounds if each["run"]["before"]["step_ms"]]
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
    return {"rows": len(rows), "given": statistics.mean(abs(row["given_pct"]) for row in rows), "paced": statistics.mean(abs(row["paced_pct"]) for row in rows), "median": statistics.median(map(abs, errors)), "mape": statistics.mean(map(abs, errors)), "max": max(map(abs, errors)), "bias": statistics.mean(errors),
            "tau": kendall([(row["predicted_ms"], row["measured_ms"]) for row in rows]), "inside": statistics.mean(row["inside"] for row in rows),
            "before": statistics.mean(abs(row["before_pct"]) for row in told) if told else float("nan"), "before_inside": statistics.mean(row["before_inside"] for row in told) if told else float("nan")}


def groups_of(rows):
    for key, of in {"strategy": lambda row: row["strategy"].split("[")[0], "network": lambda row: row["model"].split("[")[0],
                    "transport": lambda row: "emulated workers" if "emulated" in str(row["workers"]) else "one worker" if row["workers"] == 1 else row["transport"] + (" on a fabric" if "fabric" in row else "")}.items():
        for value in dict.fromkeys(of(row) for row in rows):
            yield f"{key} {value}", [row for row in rows if of(row) == value]


def repeated(rows):
    """How far off the run of one round is from the same experiment's in the next, taken for a prediction of it; and what was predicted of those runs: MAPE, %. What a machine does not do twice alike no model tells. None of one round."""
    pairs = [(one["run"]["measured_ms"], other["run"]["measured_ms"], other["error_pct"]) for row in rows for one, other in zip(row["rounds"], row["rounds"][1:])]
    return (statistics.mean(100 * abs(before / after - 1) for before, after, _ in pairs), statistics.mean(abs(error) for _, _, error in pairs)) if pairs else None


def by_themselves(rows):
    """Of single runs, which is what a user has who predicts once and runs once: MAPE, %, and how many lie inside."""
    runs = [each for row in rows for each in row["rounds"]]
    return len(runs), statistics.mean(abs(each["error_pct"]) for each in runs), statistics.mean(each["inside"] for each in runs)


def off(row):
    """Parts of the step, as predicted less as measured, ms: the two that are furthest off."""
    parts = {cause: row["predicted_ledger_ms"][cause] - row["ledger_ms"][cause] for cause in row["ledger_ms"]}
    return ", ".join(f"{cause} {ms:+.3g}" for cause, ms in sorted(parts.items(), key=lambda item: -abs(item[1]))[:3])


def show(rows, failed):
    loads = [each["run"]["load"] for row in rows for each in row["rounds"]]
    calm = [row for row in rows if row["calm"]]
    print(f"\n{len(rows)} experiments, {max(len(row['rounds']) for row in rows)} rounds; load average {min(loads):.1f} to {max(loads):.1f}; {len(calm)} undisturbed\n\n| group | rows | MAPE | largest | bias | tau | inside | median | predicted by each run | inside | at the run's pace | given its computing |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, group in [("all", rows), ("undisturbed", calm), *groups_of(rows)]:
        if group:
            told = summary(group)
            print(f"| {name} | {told['rows']} | {told['mape']:.1f} % | {told['max']:.1f} % | {told['bias']:+.1f} % | {told['tau']:.3f} | {told['inside']:.0%} | {told['median']:.1f} % | {told['before']:.1f} % | {told['before_inside']:.0%} | {told['paced']:.1f} % | {told['given']:.1f} % |")
    runs, error, inside = by_themselves(rows)
    print(f"\nThe {runs} runs by themselves: {error:.1f} %, {inside:.0%} inside.", end="")
    if told := repeated(rows):
        print(f" The same experiment's run of the round before, taken for a prediction, is {told[0]:.1f} % off, what was predicted {told[1]:.1f} %.", end="")
    print("\n\n| experiment | measured, ms | predicted | error | by the run | at the run's pace | given its computing | rounds | disturbed | parts off, ms |\n|---|---|---|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: -abs(row["error_pct"])):
        print(f"| {row['name']} | {row['measured_ms']:.4g} | {row['predicted_ms']:.4g} ({row['low']:.4g} to {row['high']:.4g}) | {row['error_pct']:+.1f} % | {row['before_pct'] or float('nan'):+.1f} % | {row['paced_pct']:+.1f} % | {row['given_pct']:+.1f} % | "
              f"{', '.join(format(each['error_pct'], '+.1f') for each in row['rounds'])} | {row['disturbed']:.1%} | {off(row)} |")
    for name, why in failed.items():
        print(f"\n{name}: {why}")


def row_of(name, one, rounds):
    """All that was found of an experiment; each figure is the median of the rounds."""
    for each in rounds:
        step, measured = each["prediction"]["step_ms"], each["run"]["measured_ms"]
        each.update(error_pct=100 * (step["value"] / measured - 1), inside=step["low"] <= measured <= step["high"])
    middle = lambda of: statistics.median(map(of, rounds))
    before_pct, before_inside = before(rounds)
    made = {**one, "name": name, "measured_ms": middle(lambda each: each["run"]["measured_ms"]), **{f"{key}": middle(lambda each, key=key: each["prediction"]["step_ms"][key]) for key in ("low", "high")},
            "predicted_ms": middle(lambda each: each["prediction"]["step_ms"]["value"]), "before_pct": before_pct, "before_inside": before_inside,
            "paced_pct": middle(lambda each: 100 * (at_pace(each["prediction"], each["slower"]) / each["run"]["measured_ms"] - 1)),
            "given_pct": middle(lambda each: 100 * (given(each["prediction"], each["run"]) / each["run"]["measured_ms"] - 1)), "disturbed": max(each["disturbed"] for each in rounds), "calm": all(each["calm"] for each in rounds),
            **{key: {cause: middle(lambda each, cause=cause: of(each)[cause]) for cause in of(rounds[0])} for key, of in {"predicted_ledger_ms": lambda each: each["prediction"]["ledger_ms"], "ledger_ms": lambda each: each["run"]["ledger_ms"]}.items()}, "rounds": rounds}
    return {**made, "inside": made["low"] <= made["measured_ms"] <= made["high"], "error_pct": 100 * (made["predicted_ms"] / made["measured_ms"] - 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2, help="that each run's steps are to last")
    parser.add_argument("--budget", default="0.6s", help="of each measurement of probe compute")
    parser.add_argument("--only", default="", help="words, with commas between: experiments that have one of them in their name")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--calibrations", type=int, default=0, help="so many of each network before all runs, into one profile; else one before each network's runs, by itself")
    parser.add_argument("--by-turns", action="store_true", help="each round measures each network once more, into the same profile, right before its runs")
    parser.add_argument("--between", type=int, default=8, help="with --by-turns: experiments between two measurements of their network, at most; what drifts within minutes is in both, then")
    parser.add_argument("--keep-wires", action="store_true", help="what probe comm measured for this script before")
    parser.add_argument("--hold", action="store_true", help=f"end with 1 where there are fewer than {GOAL['rows']} experiments, MAPE is above {GOAL['mape']} %% or fewer than {GOAL['inside']} lie inside")
    parser.add_argument("--again", action="store_true", help="no runs: predict what the last run of this script measured, from the profiles of then")
    chosen = parser.parse_args()
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    wires = folder / "predictions_wires.json"
    cases = {name_of(one): one for one in CASES if any(word in name_of(one) for word in chosen.only.split(","))}
    if not cases:
        parser.error(f"--only: got {chosen.only}: no experiment has that in its name")
    all_wires = WIRES + MPI_WIRES
    if not chosen.again and any(one["transport"] == "mpi" for one in cases.values()) and (why := mpi_missing()):
        say(f"none over mpi: {why}")
        cases, all_wires = {name: one for name, one in cases.items() if one["transport"] != "mpi"}, WIRES
    rounds, failed = {name: [] for name in cases}, {}
    if chosen.again:
        for row in json.loads((folder / "predictions.json").read_text())["rows"]:
            if row["name"] in cases:
                rounds[row["name"]] = [{**each, "prediction": predict(cases[row["name"]], folder / each["profile"])} for each in row["rounds"]]
    else:
        pulse = Pulse()
        if not (chosen.keep_wires and wires.exists()):
            wires.unlink(missing_ok=True)
            calibrate_wires(wires, all_wires)
    models = list(dict.fromkeys(one["model"] for one in cases.values()))
    measured = calibrate_all(models, wires, chosen, pulse) if chosen.calibrations and not chosen.again else {}
    for number in range(0 if chosen.again else chosen.rounds):
        begun = time.monotonic()
        if chosen.by_turns and number > 0:
            wires_again(wires, measured, all_wires)
        for model in models if number % 2 == 0 else models[::-1]:
            names = [name for name, one in cases.items() if one["model"] == model and name not in failed]
            found, lost = block(model, names if number % 2 == 0 else names[::-1], cases, number, chosen, wires, pulse, measured)
            failed |= lost
            for name, one in found.items():
                rounds[name].append(one)
            keep(cases, rounds, failed)
        say(f"a round took {time.monotonic() - begun:.0f} s")
    rows = keep(cases, rounds, failed)
    if not rows:
        sys.exit("nothing was predicted and measured: " + "; ".join(f"{name}: {why}" for name, why in failed.items()))
    show(rows, failed)
    if chosen.hold:
        hold(summary(rows), failed)


def hold(told, failed):
    """What predictions are to reach, on a machine as calm as whoever asks takes it to be."""
    missed = [words for words, wrong in ((f"{told['rows']} experiments, expected {GOAL['rows']} or more", told["rows"] < GOAL["rows"]), (f"MAPE {told['mape']:.1f} %, expected {GOAL['mape']} or less", told["mape"] > GOAL["mape"]),
                                         (f"{told['inside']:.0%} inside, expected {GOAL['inside']:.0%} or more", told["inside"] < GOAL["inside"]), (f"{len(failed)} experiments failed", bool(failed))) if wrong]
    if missed:
        sys.exit("not held: " + "; ".join(missed))


def keep(cases, rounds, failed):
    rows = [row_of(name, one, rounds[name]) for name, one in cases.items() if rounds[name] and name not in failed]
    if rows:
        save("predictions", {"machine": machine(), "summary": summary(rows), "rows": rows, "failed": failed})
    return rows


if __name__ == "__main__":
    main()
