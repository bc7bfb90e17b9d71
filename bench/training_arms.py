"""Arms of bench/training.py: one run of ours, of PyTorch or of TensorFlow, each in processes of its own that end within a limit.

Each returns {step_ms: [...], cpu_ms: [...], peak_memory_bytes: [...], parameters, …} of so many steps after two of warm-up: a step is the slowest worker's, its CPU time that of all workers'
threads, memory each process's high-water mark from its first step on. What does not end well raises Failed.
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from common import BINARY, ROOT
from networks import WARM_UP
from training_cases import dataset_of, model_of

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
TENSORFLOW = ROOT / ".deps" / "tensorflow"
TENSORFLOW_PACKAGE = "tensorflow-cpu==2.21.0"
# glibc keeps what it was given, so that PyTorch pays for no page faults.
TUNED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_TOP_PAD_": "268435456"}


class Failed(Exception):
    """A run that did not end well, or not in time; its words say which and why."""


def command(words, limit, environment=None, folder=None):
    """Standard output. All that it started is gone when this returns."""
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder, env={**os.environ, **(environment or {})})
    try:
        said, complaint = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired as late:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failed(f"a run took more than {limit:g} s") from late
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if process.returncode != 0:
        last = " ".join(complaint.strip().splitlines()[-3:])
        raise Failed(f"ended with {process.returncode}: {last[-600:]}")
    return said


def ours(case, workers, steps, precision, limit, extra=()):
    batch = case["batch"] * workers
    # All within an epoch, as peers' steps are: at its end ranks hash their parameters, and come out of that at different times.
    arguments = ["--model", model_of(case), "--dataset", dataset_of(case), "--synthetic", "--train-samples", max(64, (steps + WARM_UP) * batch), "--test-samples", 16, "--no-evaluate", "--steps", steps + WARM_UP,
                 "--workers", f"cpu[threads={case['threads']}]:{workers}" if case["threads"] > 1 else workers, "--batch", batch, "--precision", precision, "--learning-rate", 0.001, "--momentum", 0.9, "--trace", "off", *extra]
    with tempfile.TemporaryDirectory() as folder:
        done = json.loads(command([BINARY, "run", "--json", "--store", "none", "--quiet", *arguments], limit, folder=folder))
    if done["state"] != "ok":
        raise Failed(f"{done['state']}: {done['reason']}")
    ranks = done["ranks"]
    if len(ranks) != workers:
        raise Failed(f"a run of {workers} workers tells of {len(ranks)}")
    exposed = [rank["ledger_ms"]["communication"] / rank["wall_ms"] for rank in ranks]
    waited = [rank["ledger_ms"]["wait"] / rank["wall_ms"] for rank in ranks]
    return {"step_ms": [max(times) for times in zip(*(rank["step_ms"]["samples"][WARM_UP:] for rank in ranks))],
            "cpu_ms": [sum(times) for times in zip(*(rank["cpu_ms"]["samples"][WARM_UP:] for rank in ranks))],
            "peak_memory_bytes": [rank["memory_bytes"]["kernel_peak"] for rank in ranks], "parameters": done["model"]["parameters"],
            "exposed": statistics.mean(exposed), "waited": statistics.mean(waited), "version": f"{done['build']['version']}, {done['build']['commit']}{', changed' if done['build']['dirty'] else ''}"}


def job_of(case, workers, steps, precision):
    return {**{key: case[key] for key in ("model", "options", "shape", "threads")}, "batch": case["batch"] * workers, "workers": workers, "steps": steps, "precision": precision}


def told(said, workers):
    """A peer's JSON. It may print more; a peer that says another number of workers than it was asked for is none."""
    done = json.loads(said.strip().splitlines()[-1])
    if done["world"] != workers:
        raise Failed(f"it was to have {workers} workers and had {done['world']}")
    return done


def pytorch(case, workers, steps, precision, limit, channels_last=False, environment=None):
    job = {**job_of(case, workers, steps, precision), "channels_last": channels_last}
    return told(command([sys.executable, PEERS / "torch_networks.py", json.dumps(job)], limit, environment), workers)


def tensorflow(case, workers, steps, precision, limit, form, strategy=None):
    """`form` is one of TENSORFLOW_FORMS."""
    environment, jit = TENSORFLOW_FORMS[form]
    job = {**job_of(case, workers, steps, precision), "strategy": strategy, "jit": jit}
    return told(command([TENSORFLOW / "bin" / "python", PEERS / "tensorflow_training.py", json.dumps(job)], limit, environment), workers)


PYTORCH_FORMS = {"as it comes": False, "channels last": True}
# By itself TensorFlow uses oneDNN only on processors of some kinds.
TENSORFLOW_FORMS = {"as it comes": ({}, False), "oneDNN on": ({"TF_ENABLE_ONEDNN_OPTS": "1"}, False), "XLA": ({}, True)}


def tensorflow_missing():
    """Why there is no TensorFlow here; None where there is."""
    if (TENSORFLOW / "bin" / "python").exists():
        return None
    return f"{TENSORFLOW.relative_to(ROOT)} is not there: bench/training.py --setup makes it"


def set_up_tensorflow():
    subprocess.run([sys.executable, "-m", "venv", TENSORFLOW], check=True)
    subprocess.run([TENSORFLOW / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", TENSORFLOW_PACKAGE], check=True)
    print(f"{TENSORFLOW_PACKAGE} is in {TENSORFLOW}", file=sys.stderr)


def same_parameters(cases, limit):
    """Networks have as many parameters in Keras as in plain PyTorch, which tests hold equal to ours (each run is held against that once more). Exits where one has not."""
    sys.path[:0] = [str(PEERS), str(ROOT / "tests")]
    import reference_networks
    import torch
    from torch_networks import Shape

    counted = json.loads(command([TENSORFLOW / "bin" / "python", PEERS / "tensorflow_training.py", json.dumps({"count": [{key: case[key] for key in ("model", "options", "shape")} for case in cases]})], limit))
    for case, theirs in zip(cases, counted):
        with torch.device("meta"):
            expected = sum(p.numel() for p in reference_networks.build(case["model"], Shape(**case["shape"]), case["options"]).parameters())
        if theirs != expected:
            sys.exit(f"{case['name']} has {theirs:,} parameters in TensorFlow; expected {expected:,}")
        print(f"  {case['name']}: {theirs:,} parameters in TensorFlow and PyTorch", file=sys.stderr)
