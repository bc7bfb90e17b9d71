"""What only a machine with an NVIDIA GPU can show: the conformance suites on cuda:0, two logical workers on it, and the figures.

    bench/gpu.py                            builds against this machine's torch with CUDA, tests, measures (`make test-gpu`)
    bench/gpu.py --build build/cuda         the same with what was built there
    bench/gpu.py pack build/cuda FOLDER     copies the programs and the libraries that are not torch's, for a GPU machine that cannot build
    bench/gpu.py --pack FOLDER              tests and measures with those, beside that machine's own torch of the same version

Ends with 1 where a suite fails or did not run on the GPU, and with 77 where there is no GPU. Figures go to stdout and build/bench/gpu.json, the profile that it measures to gpu-machine.json.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from networks import CIFAR, IMAGENET, PLAIN, SENTENCES, TEXT, images
from training_cases import GPT_SMALL, dataset_of, model_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "bench"
SUITES = {"measure_test": "Gpus.*", "nn_test": "Dropout.*", "collective_test": "Communicator.*",
          "train_test": "Device*:Delayed*:Evaluate.*:Optimizer*:StrategyConformance.*:Accumulation.*:Recompute.*", "train_slow_test": "MeasurePasses.*:MeasureMachine.*:PassGraphs.*"}
ON_GPU = "train_test"
AT_ONCE = max(1, min(8, (os.cpu_count() or 1) // 2))  # of what is not timed
PROGRAMS = ["ddlbench", *SUITES]
SYSTEM = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "ld-linux", "linux-vdso", "libutil.so", "libstdc++", "libgcc_s", "libtorch", "libc10", "libcudart", "libcupti", "libnccl", "libcuda.so")


def say(*words):
    print(*words, flush=True)


def torch_of(python):
    """Where that Python's torch lies, its version, and where the libraries that it needs do."""
    done = subprocess.run([python, "-c", "import importlib.util, pathlib, runpy\n"
                           "root = pathlib.Path(importlib.util.find_spec('torch').submodule_search_locations[0])\n"
                           "print(root); print(runpy.run_path(str(root / 'version.py'))['__version__'])"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{python} has no torch: {done.stderr.strip()}")
    root, version = done.stdout.split()
    root = pathlib.Path(root)
    if not (root / "lib" / "libtorch_cuda.so").exists():
        sys.exit(f"torch {version} of {python} has no CUDA; expected a wheel with it")
    return root, version, [root / "lib", *sorted((root.parent / "nvidia").glob("*/lib"))]


def needed(program, environment):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, env=environment).stdout
    return [line.split("=>")[1].split()[0] for line in listed.splitlines() if "=> /" in line and not any(word in line for word in SYSTEM)]


def pack(build, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        shutil.copy2(build / "bin" / name, folder / name)
        subprocess.run(["strip", folder / name], check=True)
        for library in needed(folder / name, os.environ):
            shutil.copy2(library, folder / pathlib.Path(library).name)
    for module in ("libfake_driver.so", "libddl_cuda_graphs.so"):  # loaded by name
        shutil.copy2(next(build.rglob(module)), folder / module)
    size = sum(file.stat().st_size for file in folder.iterdir())
    say(f"{folder}: {len(list(folder.iterdir()))} files, {size / 2**20:.1f} MiB")


def built(python, jobs):
    build = ROOT / "build" / "gpu"
    if not (build / "build.ninja").exists():
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DDDL_PYTHON={python}"], check=True)
    subprocess.run(["cmake", "--build", build, "-j", str(jobs), "--target", *PROGRAMS], check=True)
    return build


class Programs:
    def __init__(self, folder, libraries):
        self.folder = folder
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, [folder, *libraries])), "OMP_WAIT_POLICY": "passive"}

    def run(self, name, *arguments, timeout=600, **variables):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run([self.folder / name, *map(str, arguments)], cwd=folder, capture_output=True, text=True, env={**self.environment, **variables},
                                  timeout=timeout)

    def record(self, *arguments, code=0):
        done = self.run("ddlbench", "run", "--json", "--store", "none", "--quiet", *arguments)
        if done.returncode != code:
            raise RuntimeError(f"run {' '.join(map(str, arguments))}: ended with {done.returncode}, expected {code}: {done.stderr[-2000:]}{done.stdout[-2000:]}")
        return json.loads(done.stdout) if done.stdout.strip() else {}


def test(programs):
    """Each suite in a process of its own, several at once; the one of devices must say that it ran on the GPU."""
    def alone(suite):
        done = programs.run(ON_GPU, f"--gtest_filter={suite}.*", DDL_TEST_BEFORE_CUDA="1")
        well = done.returncode == 0 and "SKIPPED" not in done.stdout and (suite != "CudaGraphs" or "CUDA graphs: known" in done.stdout)
        say(f"{suite:24} {'passed' if well else 'FAILED'}" + ("" if well else done.stdout[-3000:]))
        return [] if well else [suite]

    def suite(name):
        begin = time.monotonic()
        done = programs.run(name, f"--gtest_filter={SUITES[name]}", timeout=1500)
        verdict = "passed" if done.returncode == 0 else f"FAILED ({done.returncode})"
        if done.returncode == 0 and name == ON_GPU and "device cuda:0" not in done.stdout:
            verdict = "FAILED: it did not run on cuda:0"
        tests = [line for line in done.stdout.splitlines() if line.startswith("[==========]") and "ran" in line]
        say(f"{name:24} {verdict:12} {tests[-1][13:] if tests else ''} {time.monotonic() - begin:.0f} s")
        if verdict == "passed":
            return []
        told = [line for line in done.stdout.splitlines() if not line.startswith(("[ RUN", "[       OK", "[----"))]
        say("\n".join(told)[-5000:], done.stderr[-3000:])
        return [name]

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        work = [*(pool.submit(suite, name) for name in SUITES), *(pool.submit(alone, name) for name in ("DevicesBeforeForking", "DevicesTooLate", "CudaGraphs"))]
        return [name for each in work for name in each.result()]


def line(name, record):
    rank = record["ranks"][0]
    ledger = {key: value for key, value in rank["ledger_ms"].items() if value and value >= 0.005}
    planned = sum(rank["memory_bytes"][held] for held in ("parameters", "gradients", "optimizer", "buckets", "activations"))
    say(f"{name:46} {record['throughput']['median']:10.0f} samples/s {record['step_ms']['median']:9.3f} ms  peak {rank['peak_memory_bytes'] / 2**20:8.0f} MiB, planned {planned / 2**20:.0f} ({100 * (planned / rank['peak_memory_bytes'] - 1):+.1f} %)  "
        f"loss {record['loss']['first']:.4f} to {record['loss']['final']:.4f}")
    say(f"{'':46} " + ", ".join(f"{key} {value:.2f}" for key, value in ledger.items()))


def check_ledger(name, record, problems):
    for rank in record["ranks"]:
        wall, residual = rank["wall_ms"], rank["ledger_ms"]["residual"]
        if abs(residual) > 0.05 * wall:
            problems.append(f"{name}: residual {residual:.2f} of {wall:.2f} ms on rank {rank['rank']}")


def measure(programs):
    problems, results = [], {}
    cases = {}
    for model, data, batch in (("resnet18", "cifar10", 256), ("resnet50", "imagenet", 64), ("transformer", "translation", 64), ("gpt", "language", 4)):
        for precision in ("fp32", "tf32", "bf16", "fp16"):
            cases[f"{model} {precision} cuda:1"] = ["--model", model, "--dataset", data, "--batch", batch, "--precision", precision, "--workers", "cuda:1"]
    for model, data, batch in (("resnet18", "cifar10", 256), ("resnet50", "imagenet", 64)):
        for transport in ("shm", "tcp"):
            cases[f"{model} fp32 two on one GPU, {transport}"] = ["--model", model, "--dataset", data, "--batch", batch, "--workers", "cuda[index=0]:2", "--transport", transport]
    for name, arguments in cases.items():
        try:
            record = programs.record(*arguments, "--synthetic", "--train-samples", 2 * int(arguments[5]), "--test-samples", arguments[5], "--steps", 30, "--seed", 1)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            problems.append(str(error))
            say(f"{name:46} FAILED {error}")
            continue
        results[name] = {key: record[key] for key in ("throughput", "step_ms", "loss", "accuracy", "ranks", "precision", "environment", "build")}
        line(name, record)
        check_ledger(name, record, problems)
    return problems, results


def predicted(programs):
    """What `probe compute --device cuda` measures of this GPU, and how far off predictions by it are."""
    problems, found = [], {}
    with tempfile.TemporaryDirectory() as folder:
        machine = str(pathlib.Path(folder) / "machine.json")
        done = programs.run("ddlbench", "probe", "compute", "--device", "cuda", "--model", "lenet,resnet18,gpt", "--dataset", "cifar10,language", "--batch", "4,64", "--budget", "1s", "--machine", machine, "--json", timeout=900)
        if done.returncode != 0:
            return [f"probe compute --device cuda ended with {done.returncode}: {done.stderr[-1500:]}"], found
        document = json.loads(done.stdout)
        (FOLDER / "gpu-machine.json").write_text(done.stdout)
        for entry in document["compute"]:
            by_graphs = entry["graphs"]
            say(f"probed {entry['network']}, {entry['batch']} samples: {entry['pass_ms']:.3f} ms a pass, {entry['clock']}'s time; the executor's steps {entry['correction']:.3f} times that, passes by graphs {by_graphs.get('correction', by_graphs.get('why_not'))}")
            if entry["clock"] != "device":
                problems.append(f"layers of {entry['network']} were timed by {entry['clock']}, not by the device")
        say("memory, GB/s: " + ", ".join(f"{entry['what']} {entry['bytes'] >> 20} MiB {entry['bytes_per_s'] * 1e-9:.1f}" for entry in document["memory"]))
        say(f"launch: {document['launch'][0]}; contention: {document['contention']}")
        # Of 16 samples nothing was measured.
        for model, data, batch in (("lenet", "cifar10", 64), ("resnet18", "cifar10", 16), ("resnet18", "cifar10", 64), ("gpt", "language", 4), ("gpt", "language", 16)):
            for way in ("on", "off"):
                job = ["--model", model, "--dataset", data, "--batch", batch, "--synthetic", "--workers", "cuda:1", "--graphs", way]
                told = programs.run("ddlbench", "predict", *job, "--machine", machine, "--json")
                if told.returncode != 0:
                    problems.append(f"predict of {model} by that profile ended with {told.returncode}: {told.stderr[-800:]}")
                    continue
                point = json.loads(told.stdout)["points"][0]
                step = point["step_ms"]
                record = programs.record(*job, "--train-samples", max(2048, 60 * batch), "--test-samples", 64, "--steps", 60, "--no-evaluate")
                took = record["step_ms"]["median"]
                found[f"{model} {batch}, graphs {way}"] = {"predicted": step, "measured_ms": took, "ledger_ms": {"predicted": point["ledger_ms"], "measured": record["ranks"][0]["ledger_ms"]}}
                say(f"{model}, {batch} samples, graphs {way}: predicted {step['value']:.3f} ms ({step['low']:.3f} to {step['high']:.3f}), measured {took:.3f}: {100 * (step['value'] / took - 1):+.1f} %")
                if not step["low"] <= took <= step["high"]:
                    problems.append(f"{model} of {batch} samples, graphs {way}, lies outside of its interval: {step}, measured {took}")
    return problems, found


#: what is measured (networks, data set, precision, batches), and the batches between those that are predicted
BETWEEN = ((("vgg11", "smallcnn", "mobilenetv2"), "cifar10", "fp32", (4, 64), (("vgg11", 16), ("smallcnn", 16), ("mobilenetv2", 16), ("vgg11", 32), ("mobilenetv2", 8))),
           (("vgg11", "mobilenetv2"), "cifar10", "bf16", (4, 64), (("vgg11", 16), ("mobilenetv2", 16))),
           (("transformer",), "translation", "bf16", (4, 64), (("transformer", 16), ("transformer", 32), ("transformer", 8))),
           (("gpt",), "language", "bf16", (8, 32), (("gpt", 16),)),
           (("resnet50",), "imagenet", "fp32", (8, 32), (("resnet50", 16),)))


def between(programs):
    """How far off predictions by graphs are of batches that were not measured, between two that were. What goes on between them was set by others: of the networks of images by none of them, of the Transformer in another precision, of GPT between other batches."""
    problems, found = [], {}
    for networks, data, precision, batches, cases in BETWEEN:
        with tempfile.TemporaryDirectory() as folder:
            machine = str(pathlib.Path(folder) / "machine.json")
            done = programs.run("ddlbench", "probe", "compute", "--device", "cuda", "--model", ",".join(networks), "--dataset", data, "--batch", ",".join(map(str, batches)), "--precision", precision, "--budget", "0.5s", "--machine", machine)
            if done.returncode != 0:
                problems.append(f"probe compute of {', '.join(networks)} ended with {done.returncode}: {done.stderr[-800:]}")
                continue
            for model, batch in cases:
                job = ["--model", model, "--dataset", data, "--batch", batch, "--precision", precision, "--synthetic", "--workers", "cuda:1", "--loader", 4]
                told = programs.run("ddlbench", "predict", *job, "--machine", machine, "--json")
                if told.returncode != 0:
                    problems.append(f"predict of {model} ended with {told.returncode}: {told.stderr[-800:]}")
                    continue
                step = json.loads(told.stdout)["points"][0]["step_ms"]
                took = programs.record(*job, "--train-samples", max(512, 40 * batch), "--test-samples", 16, "--steps", 40, "--no-evaluate", "--trace", "off")["step_ms"]["median"]
                inside = step["low"] <= took <= step["high"]
                found[f"{model} {batch} {precision}"] = {"predicted": step, "measured_ms": took, "between": batches}
                say(f"{model}, {batch} samples, {precision}, between {batches[0]} and {batches[1]}: predicted {step['value']:.3f} ms ({step['low']:.3f} to {step['high']:.3f}), measured {took:.3f}: {100 * (step['value'] / took - 1):+.1f} %{'' if inside else ', outside'}")
                if not inside:
                    problems.append(f"{model} of {batch} samples in {precision} lies outside of its interval: {step}, measured {took}")
    if found:
        say(f"MAPE {100 * statistics.mean(abs(each['predicted']['value'] / each['measured_ms'] - 1) for each in found.values()):.1f} %")
    return problems, found


def job_of(case):
    """Arguments of a run, and its name."""
    model, data, batch, *more = case
    two = "two" in more
    others = [each for each in more if each != "two"]
    return " ".join([model, str(batch), *more]), ["--model", model, "--dataset", data, "--batch", batch, "--synthetic", "--train-samples", max(64, 2 * batch), "--test-samples", 16, "--seed", 1, "--no-evaluate",
                                                  "--workers", "cuda[index=0]:2" if two else "cuda:1", *(word for each in others for word in each.split())]


def graphs(programs):
    """Passes as graphs of the device beside the same without: in fp64 they must come to the same loss. Several at once: nothing is timed.

    The learning rate is small: by the larger one of a run as it comes, round-off that cuDNN's choices of the moment make grows to a thousandth within these steps, with graphs or without."""
    cases = [("lenet", "mnist", 64), ("smallcnn", "cifar10", 64), ("resnet18", "cifar10", 32), ("mobilenetv2", "cifar10", 32), ("transformer", "translation", 16), ("gpt[hidden=256,layers=4,heads=4]", "language", 4),
             ("captioner", "captions", 4), ("resnet18", "cifar10", 32, "--accumulate 2"), ("resnet18", "cifar10", 32, "two"), ("resnet18", "cifar10", 32, "--recompute"), ("vgg11", "cifar10", 32)]
    found = {}

    def compared(case):
        name, job = job_of(case)
        try:
            records = {key: programs.record(*job, "--precision", "fp64", "--steps", 12, "--learning-rate", 0.0001, "--graphs", way) for key, way in (("on", "on"), ("off", "off"), ("off again", "off"))}
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return [f"{name}: {error}"]
        on, off, again = (records[way]["loss"]["final"] for way in ("on", "off", "off again"))
        told = records["on"]["ranks"][0]["graphs"]
        found[name] = {"loss": {"on": on, "off": off, "off again": again}, "graphs": told}
        say(f"{name:44} fp64 loss with graphs {on!r}, without {off!r} and again {again!r}; graphs in {told['steps']} of 12 steps{': ' + told['why_not'] if told['why_not'] else ''}")
        problems = []
        if told["steps"] < 8 or told["why_not"]:
            problems.append(f"{name}: its passes were graphs in {told['steps']} of 12 steps: {told['why_not']}")
        if not abs(on - off) <= 1e-9 * abs(off):
            problems.append(f"{name}: fp64 loss with graphs {on}, without {off} and {again}")
        return problems

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return [each for told in pool.map(compared, cases) for each in told], found


def speed(programs, python, networks, once):
    """Ours with graphs and without beside PyTorch on the same GPU: steps that the host waits for, one run each in turn: PyTorch, on, off, off, on, PyTorch."""
    cases = [("lenet", "lenet", "mnist", images(1, 28, 10), {}, 64, ["fp32"]), ("resnet18", "resnet18", "cifar10", CIFAR, {}, 32, ["fp32", "bf16"]), ("resnet18-256", "resnet18", "cifar10", CIFAR, {}, 256, ["fp32", "bf16"]),
             ("resnet50-64", "resnet50", "imagenet", IMAGENET, {}, 64, ["fp32", "bf16"]), ("mobilenetv2-64", "mobilenetv2", "imagenet", IMAGENET, PLAIN, 64, ["fp32"]),
             ("transformer-64", "transformer", "translation", SENTENCES, PLAIN, 64, ["fp32", "bf16"]), ("gpt-8", "gpt", "language", TEXT, GPT_SMALL, 8, ["tf32", "bf16"])]
    cases = [case for case in cases if not networks or case[0] in networks]
    problems, found = [], {}
    steps, timings = 30, {}
    theirs = [{"name": name, "model": model, "options": options, "shape": shape, "batch": batch, "steps": steps, "precision": precision, "ways": ["eager", "contiguous", "graph", "contiguous graph"] if shape["channels"] else ["eager", "graph"]} for name, model, _, shape, options, batch, precisions in cases for precision in precisions]

    def tell():
        for (name, precision), ways in timings.items():
            say(f"{name:16} {precision}: " + "; ".join(f"{way} {', '.join(f'{each:.3f}' for each in each_ms)}" for way, each_ms in ways.items()))

    def peer():
        try:
            done = subprocess.run([python, ROOT / "bench" / "peers" / "torch_gpu.py", json.dumps(theirs)], capture_output=True, text=True, timeout=400)
        except subprocess.TimeoutExpired as error:
            problems.append(f"PyTorch: {error}")
            tell()
            return
        if done.returncode != 0:
            problems.append(f"PyTorch ended with {done.returncode}: {done.stderr[-1500:]}")
        for line in done.stdout.splitlines():
            told = json.loads(line)
            if "error" in told:
                say(f"PyTorch, {told['name']} {told['precision']} {told['way']}: {told['error']}")
                continue
            timings.setdefault((told["name"], told["precision"]), {}).setdefault("PyTorch " + told["way"], []).append(statistics.median(told["step_ms"]))
            timings[told["name"], told["precision"]].setdefault("PyTorch " + told["way"] + ", queued", []).append(told["queued_ms"])
        with open(FOLDER / "gpu-pytorch.jsonl", "a") as kept:
            kept.write(done.stdout)
        tell()

    (FOLDER / "gpu-pytorch.jsonl").unlink(missing_ok=True)
    peer()
    for name, model, dataset, shape, options, batch, precisions in cases:
        case = {"model": model, "options": options, "dataset": dataset, "shape": shape}
        # Steps are not to wait for photographs to be made: of the fastest networks one thread may not keep up, where its core is slow.
        job = [*job_of((model_of(case), dataset_of(case), batch))[1], "--loader", 4]
        for precision in precisions:
            for way in ("on", "off") if once else ("on", "off", "off", "on"):
                try:
                    record = programs.record(*job, "--precision", precision, "--steps", steps, "--graphs", way, "--learning-rate", 0.001, "--momentum", 0.9, "--trace", "off")
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    problems.append(f"{name} {precision}, graphs {way}: {error}")
                    break
                rank = record["ranks"][0]
                timings.setdefault((name, precision), {}).setdefault(f"ours, graphs {way}", []).append(statistics.median(rank["step_ms"]["samples"][10:]))
                found.setdefault(f"{name} {precision}", {}).setdefault("runs", []).append({"graphs": rank["graphs"], "way": way, "ledger_ms": rank["ledger_ms"], "wall_ms": rank["wall_ms"], "step_ms": rank["step_ms"]["samples"], "reserved_peak_bytes": rank["accelerator"]["reserved_peak_bytes"]})
            (FOLDER / "gpu-speed.json").write_text(json.dumps(found, indent=1))
            ours = found.get(f"{name} {precision}", {}).get("runs", [])
            for each in ours[:2]:
                say(f"{name} {precision} graphs {each['way']}: " + ", ".join(f"{key} {value:.3f}" for key, value in each["ledger_ms"].items() if value and value >= 0.005)
                    + f" ms a step; at most {each['reserved_peak_bytes'] / 2**20:.0f} MiB reserved{'; ' + each['graphs']['why_not'] if each['way'] == 'on' and each['graphs']['why_not'] else ''}")
    if once:
        tell()
    else:
        peer()
    for (name, precision), ways in timings.items():
        found.setdefault(f"{name} {precision}", {})["step_ms"] = ways
    return problems, found


def refused(programs):
    for workers, word in (("cuda[index=97]:1", "no device 'cuda:97'"), ("cpu:1,cuda:1", "drift apart")):
        done = programs.run("ddlbench", "run", "--synthetic", "--steps", 1, "--workers", workers, "--store", "none")
        if done.returncode != 6 or word not in done.stderr:
            yield f"{workers} ended with {done.returncode}: {done.stderr}"


def out_of_memory(programs):
    record = programs.record("--model", "gpt", "--dataset", "language", "--synthetic", "--train-samples", 8192, "--test-samples", 8, "--batch", 4096, "--steps", 2,
                             "--workers", "cuda:1", "--no-evaluate", code=1)
    if record.get("state") != "failed" or "out of memory" not in (record.get("reason") or "") or not record["ranks"][0].get("memory_bytes"):
        yield f"running out of memory gave {record.get('state')}: {record.get('reason')}"
    say(f"out of memory: {record.get('reason')}")


def nccl(programs):
    """Training over it is not there, and says so before anything begins; its collectives want a GPU a rank (`probe comm`)."""
    job = ["--model", "lenet", "--dataset", "mnist", "--synthetic", "--train-samples", 256, "--test-samples", 64, "--steps", 4, "--batch", 64, "--transport", "nccl", "--no-evaluate"]
    two = programs.run("ddlbench", "run", *job, "--workers", "cuda[index=0]:2", "--store", "none")
    if two.returncode != 6 or "training over nccl is not in this version" not in two.stderr:
        yield f"training over nccl ended with {two.returncode}: {two.stderr[-600:]}"


def same_losses(programs):
    digests = [programs.record("--model", "lenet", "--dataset", "mnist", "--synthetic", "--train-samples", 512, "--test-samples", 64, "--steps", 8, "--batch", 64,
                               "--precision", "fp64", "--workers", workers)["loss"] for workers in ("cpu:1", "cuda:1", "cuda[index=0]:2")]
    for other in digests[1:]:
        if abs(other["final"] - digests[0]["final"]) > 1e-9 * abs(digests[0]["final"]):
            yield f"fp64 losses differ from cpu's: {digests}"
    say(f"fp64 loss after 8 steps on cpu:1, cuda:1, cuda[index=0]:2: {[each['final'] for each in digests]}")


def behave(programs):
    """What must be refused, what must end as `failed` with its reason, and what must come to the same on every device. One after the other: the last wants all of the memory."""
    problems = []
    for check in (refused, nccl, same_losses, out_of_memory):
        try:
            problems += check(programs)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            problems.append(f"{check.__name__}: {error}")
    return problems


#: that tell figures and take nothing but the programs
PARTS = {"graphs": graphs, "measure": measure, "predicted": predicted, "between": between}


def main():
    if sys.argv[1:2] == ["pack"]:
        return pack(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="one that has torch with CUDA")
    parser.add_argument("--build", type=pathlib.Path, help="a build folder made against that torch")
    parser.add_argument("--pack", type=pathlib.Path, help="what `pack` made")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--suites-only", action="store_true", help="no figures")
    parser.add_argument("--networks", default="", help="of the part speed, with commas between; all by default")
    parser.add_argument("--once", action="store_true", help="one run each in the part speed")
    parser.add_argument("--only", default="suites,graphs,speed,measure,behave,predicted,between", help="parts, with commas between; each is kept when it is through, so that a run that is cut off leaves what it had")
    options = parser.parse_args()
    gpus = subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader"], capture_output=True, text=True) \
        if shutil.which("nvidia-smi") else None
    if gpus is None or gpus.returncode != 0:
        say("no NVIDIA GPU is here (nvidia-smi is missing or fails): nothing was tested on one")
        return 77
    root, version, libraries = torch_of(options.python)
    say(f"GPU {gpus.stdout.strip()}; torch {version}")
    programs = Programs(options.pack.resolve() if options.pack else ((options.build or built(options.python, options.jobs)) / "bin").resolve(), libraries)
    if options.pack:
        programs.environment["DDL_FAKE_DRIVER"] = str(options.pack.resolve() / "libfake_driver.so")
    devices = json.loads(programs.run("ddlbench", "list", "devices", "--json").stdout)["items"]
    cuda = next(each for each in devices if each["name"] == "cuda")
    if not cuda["available"]:
        say(f"FAILED: ddlbench does not see the GPU: {cuda['reason']}")
        return 1
    say(programs.run("ddlbench", "doctor").stdout.split("\n")[1])
    parts = ["suites"] if options.suites_only else options.only.split(",")
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed, problems, results = [], [], {}
    for part in parts:
        if part == "suites":
            failed = test(programs)
        elif part == "behave":
            problems += behave(programs)
        elif part == "speed":
            wrong, results[part] = speed(programs, options.python, options.networks.split(",") if options.networks else [], options.once)
            problems += wrong
        elif part in PARTS:
            wrong, results[part] = PARTS[part](programs)
            problems += wrong
        else:
            parser.error(f"--only: got {part}, expected suites, behave, speed, {', '.join(PARTS)}")
        (FOLDER / "gpu.json").write_text(json.dumps({"gpu": gpus.stdout.strip(), "torch": version, "parts": parts, "failed": failed, "problems": problems, "results": results}, indent=1))
    for problem in problems:
        say("PROBLEM", problem)
    say("all suites passed on the GPU" if not failed else f"failed: {', '.join(failed)}")
    return 1 if failed or problems else 0


if __name__ == "__main__":
    sys.exit(main())
