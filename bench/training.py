"""Training beside PyTorch and TensorFlow, network by network, fp32 and bf16, one worker and two: wall and CPU time, samples/s, memory, and whether the goals are met.

  one worker    ours as it comes; PyTorch eager; TensorFlow, a tf.function
  two workers   ours, and ours with one worker for the efficiency; DDP over Gloo with gradient_as_bucket_view; MirroredStrategy; MultiWorkerMirroredStrategy
Peers in the form that is faster, found by short runs: PyTorch with images in either memory format (DDP by itself); TensorFlow as it comes, with oneDNN switched on, and compiled by XLA (each
strategy in the faster of the first two). --threads of them a worker, SGD with momentum, samples made up in memory, no dropout. Arms are interleaved, A B … then … B A; each run trains for about --seconds, at least three steps
after two of warm-up; a network with one number of workers begins no further round once it took --limit. Fixed work on all cores before and after each run (pulse.py) tells how disturbed a network was.
More peers, not measured unless asked for: pytorch-malloc (glibc's thresholds raised, so that it pays no page faults), plain-aten (ours with --kernels torch).

usage: training.py [--setup] [--networks A,B…] [--workers 1,2] [--precisions fp32,bf16] [--peers pytorch,tensorflow] [--threads 1] [--rounds 3] [--seconds 2] [--limit 180] [--most 300] [--form ARM=FORM] [--keep] [--show]
--setup makes TensorFlow's environment (.deps/tensorflow, 1.6 GB; no test needs it) and measures nothing; without it its columns say that they were not measured.
Prints tables in Markdown; build/bench/training.json (training-N-threads.json of several) has every step of every run, and the machine, and is written after each network. --keep leaves there, and shows, what earlier calls measured of
other networks, precisions, workers and peers, so that a table can be made in parts; --show measures nothing. Ends with 1 where an arm failed. Run it on a quiet machine.
"""
import argparse
import datetime
import functools
import json
import os
import statistics
import sys
import time

import training_arms
import training_table
from common import ROOT, machine, save
from networks import FEWEST, MOST
from predictions import Watched
from pulse import Pulse
from training_arms import Failed
from training_cases import CASES

PEERS = ["pytorch", "tensorflow", "pytorch-malloc", "plain-aten"]
PYTORCH = [("PyTorch", 1), ("DDP", 2)]  # arm, workers
TENSORFLOW = [("TensorFlow", 1, None), ("MirroredStrategy", 2, "mirrored"), ("MultiWorkerMirrored", 2, "multi-worker")]  # arm, workers, strategy
PROBED, PROBED_SMALL = 2, 10  # steps of a run that finds the faster form; of small images
PROBES = 3  # such runs of each form, there and back
HOPELESS = 1.5  # times as long as the fastest: no further run of it


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def probed(case):
    return PROBED_SMALL if 0 < case["shape"]["height"] < 64 else PROBED


def faster(name, forms, run, most, key="cpu_ms"):
    """{tried: {form: ms a step, or why it failed}, taken: the fastest, None where all failed}, by short runs(form, limit) of each, by turns: of one thread by CPU time, which others on the machine disturb less.
    A form that is far behind after its first run has no other; where there is one form alone, one run tells whether it runs."""
    runs, failed = {form: [] for form in forms}, {}
    for number in range(PROBES if len(forms) > 1 else 1):
        for form in list(forms) if number % 2 == 0 else reversed(list(forms)):
            least = min((statistics.median(each) for each in runs.values() if each), default=None)
            if form in failed or (number > 0 and statistics.median(runs[form]) > HOPELESS * least):
                continue
            try:
                runs[form].append(statistics.median(run(form, most)[key]))
            except Failed as failure:
                failed[form] = str(failure)
            say(f"{name}, {form}: {failed[form] if form in failed else format(runs[form][-1], '.4g') + ' ms'}")
    tried = {form: failed.get(form) or statistics.median(runs[form]) for form in forms}
    times = {form: ms for form, ms in tried.items() if isinstance(ms, float)}
    return {"tried": tried, "taken": min(times, key=times.get) if times else None}


def forms_of(case, precision, chosen):
    """By arm: which form of it is taken, and what each took. Of an arm whose form is told that one alone is tried, once."""
    def among(arm, there):
        told = chosen.form.get(arm)
        if told is not None and told not in there:
            sys.exit(f"--form {arm}={told}; expected one of {', '.join(there)}")
        return there if told is None else [told]
    name, forms = f"{case['name']}, {precision}", {}
    of_one_worker = "cpu_ms" if chosen.threads == 1 else "step_ms"
    if {"pytorch", "pytorch-malloc"} & set(chosen.peers):
        formats = list(training_arms.PYTORCH_FORMS) if case["shape"]["channels"] else ["as it comes"]
        for arm, workers in PYTORCH:
            # Beside two workers one is measured, too.
            if workers in chosen.workers or (workers == 1 and "pytorch" in chosen.peers):
                forms[arm] = faster(f"{name}, {arm}", among(arm, formats), lambda form, limit: training_arms.pytorch(case, workers, probed(case), precision, limit, training_arms.PYTORCH_FORMS[form]), chosen.most, of_one_worker if workers == 1 else "step_ms")
    if "tensorflow" not in chosen.peers or training_arms.tensorflow_missing():
        return forms
    for arm, workers, strategy in TENSORFLOW:
        if workers in chosen.workers:
            there = [form for form in training_arms.TENSORFLOW_FORMS if not strategy or form != "XLA"]
            forms[arm] = faster(f"{name}, {arm}", among(arm, there), lambda form, limit: training_arms.tensorflow(case, workers, probed(case), precision, limit, form, strategy), chosen.most,
                                of_one_worker if workers == 1 else "step_ms")
    return forms


def steps_for(case, precision, forms, chosen):
    """As many as last about --seconds, by what the fastest peer took, or by a run of ours."""
    times = [form["tried"][form["taken"]] for form in forms.values() if form["taken"]]
    if not times:
        try:
            times = [statistics.median(training_arms.ours(case, 1, probed(case), precision, chosen.most)["step_ms"])]
        except Failed:  # as it will again, where that is told
            return FEWEST
    return max(FEWEST, min(MOST, round(chosen.seconds * 1e3 / min(times))))


def failure_of(tried):
    return "; ".join(f"{form}: {why}" for form, why in tried.items())


def arms_of(case, workers, precision, steps, forms, chosen):
    """{arm: run}, and {arm: why it cannot run}."""
    together = (case, workers, steps, precision, chosen.most)
    arms, missing = {"ddlbench": functools.partial(training_arms.ours, *together)}, {}
    if workers > 1:
        arms["ddlbench, one worker"] = functools.partial(training_arms.ours, case, 1, *together[2:])
    if "plain-aten" in chosen.peers:
        arms["ddlbench, plain ATen"] = functools.partial(training_arms.ours, *together, extra=("--kernels", "torch"))
    package = "PyTorch" if workers == 1 else "DDP"
    for peer, name, environment in [("pytorch", package, None), ("pytorch-malloc", f"{package}, malloc tuned", training_arms.TUNED_MALLOC)]:
        if peer not in chosen.peers:
            continue
        if not forms[package]["taken"]:
            missing[name] = failure_of(forms[package]["tried"])
            continue
        arms[name] = functools.partial(training_arms.pytorch, *together, training_arms.PYTORCH_FORMS[forms[package]["taken"]], environment)
        # What of DDP's step is communication, one worker of the same rounds tells.
        if workers > 1 and peer == "pytorch" and forms["PyTorch"]["taken"]:
            arms["PyTorch, one worker"] = functools.partial(training_arms.pytorch, case, 1, *together[2:], training_arms.PYTORCH_FORMS[forms["PyTorch"]["taken"]], None)
    if "tensorflow" in chosen.peers:
        absent = training_arms.tensorflow_missing()
        for name, strategy in [(arm, strategy) for arm, many, strategy in TENSORFLOW if many == workers]:
            form = None if absent else forms[name]["taken"]
            if form is None:
                missing[name] = absent or failure_of(forms[name]["tried"])
                continue
            arms[name] = functools.partial(training_arms.tensorflow, *together, form, strategy)
    return arms, missing


def measure(case, workers, precision, forms, chosen, pulse):
    """One row: every arm, interleaved. An arm that fails is in `failed` and in no further round."""
    steps = steps_for(case, precision, forms, chosen)
    arms, missing = arms_of(case, workers, precision, steps, forms, chosen)
    for arm, why in missing.items():
        say(f"{case['name']}, {precision}, {workers} worker(s), {arm}: not measured: {why}")
    runs, failed, begun = {arm: [] for arm in arms}, {}, time.monotonic()
    for number in range(chosen.rounds):
        if number > 0 and time.monotonic() - begun > chosen.limit:
            break
        for arm in list(arms) if number % 2 == 0 else reversed(list(arms)):
            if arm in failed:
                continue
            try:
                now = Watched(pulse, arms[arm])
            except Failed as failure:
                failed[arm] = str(failure)
                say(f"{case['name']}, {precision}, {workers} worker(s), {arm}: failed: {failure}")
                continue
            runs[arm].append({**now.result, "pace_s": now.pace, "slowed": now.slowed, "stolen": now.stolen, "load": os.getloadavg()[0], "round": number, "at": time.time()})
            say(f"{case['name']}, {precision}, {workers} worker(s), round {number + 1}/{chosen.rounds}, {arm}: {statistics.median(now.result['step_ms']):.4g} ms, {statistics.median(now.result['cpu_ms']):.4g} ms of CPU time")
    same_network(case, runs)
    return {"network": case["name"], "case": case, "precision": precision, "workers": workers, "steps": steps, "forms": forms, "runs": {arm: each for arm, each in runs.items() if arm not in failed},
            "failed": failed, "missing": missing, "date": str(datetime.date.today()), "machine": machine()}


def same_network(case, runs):
    """What is compared is one network. Exits where it is not."""
    counts = {arm: {run["parameters"] for run in each} for arm, each in runs.items() if each}
    if len(set.union(set(), *counts.values())) > 1:
        sys.exit(f"{case['name']} has not the same number of parameters in all arms: {counts}")


def key_of(result):
    return result["network"], result["precision"], result["workers"]


def said_of(result):
    return {*result["runs"], *result["failed"], *result["missing"]}


def supersede(earlier, result):
    """Earlier results, less those of the same row all of whose arms the new one has."""
    return [each for each in earlier if key_of(each) != key_of(result) or not said_of(each) <= said_of(result)] + [result]


def several(parser, word, there, make=str):
    values = [make(each) for each in word.split(",")]
    if unknown := [each for each in values if each not in there]:
        parser.error(f"got {word}: there is no {', '.join(map(str, unknown))}; expected some of {', '.join(map(str, there))}")
    return values


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--setup", action="store_true", help="make TensorFlow's environment, and measure nothing")
    parser.add_argument("--networks", default=",".join(CASES), help="with commas between; all")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--peers", default="pytorch,tensorflow", help=f"some of {','.join(PEERS)}")
    parser.add_argument("--threads", type=int, default=1, help="of a worker")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="that a run's steps are to last")
    parser.add_argument("--limit", type=float, default=180, help="seconds, after which a network begins no further round")
    parser.add_argument("--most", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--form", action="append", default=[], metavar="ARM=FORM", help="of a peer, where a run shortly before has found it: no other is tried; as in 'MirroredStrategy=oneDNN on'")
    parser.add_argument("--keep", action="store_true", help="what earlier calls measured of other networks, precisions, workers and peers")
    parser.add_argument("--show", action="store_true", help="measure nothing; tables of what was measured")
    chosen = parser.parse_args()
    arms = [arm for arm, *_ in PYTORCH + TENSORFLOW]
    chosen.form = dict(each.partition("=")[::2] for each in chosen.form)
    if strange := sorted(set(chosen.form) - set(arms)):
        parser.error(f"--form: got {', '.join(strange)}, expected {', '.join(arms)}")
    chosen.networks = several(parser, chosen.networks, list(CASES))
    chosen.workers = several(parser, chosen.workers, [1, 2], int)
    chosen.precisions = several(parser, chosen.precisions, ["fp32", "bf16"])
    chosen.peers = several(parser, chosen.peers, PEERS)
    return chosen


def main():
    chosen = arguments()
    if chosen.setup:
        return training_arms.set_up_tensorflow()
    name = "training" if chosen.threads == 1 else f"training-{chosen.threads}-threads"
    path = ROOT / "build" / "bench" / f"{name}.json"
    results = json.loads(path.read_text())["results"] if (chosen.keep or chosen.show) and path.exists() else []
    if not chosen.show:
        cases = [{**case, "threads": chosen.threads} for network, case in CASES.items() if network in chosen.networks]
        if "tensorflow" in chosen.peers:
            if absent := training_arms.tensorflow_missing():
                say(f"TensorFlow is not measured: {absent}")
            else:
                training_arms.same_parameters(cases, chosen.most)
        pulse = Pulse()
        for case in cases:
            for precision in chosen.precisions:
                forms = forms_of(case, precision, chosen)
                for workers in chosen.workers:
                    results = supersede(results, measure(case, workers, precision, forms, chosen, pulse))
                    save(name, {"results": results})
    if not results:
        sys.exit(f"nothing was measured: there is no {path.relative_to(ROOT)}")
    training_table.show(results)
    sys.exit(1 if any(each["failed"] for each in results) else 0)


if __name__ == "__main__":
    main()
