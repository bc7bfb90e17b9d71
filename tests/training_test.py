"""End to end through the binary: trains, fails, is interrupted, and leaves nothing behind.

usage: training_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import gzip
import json
import math
import os
import pathlib
import platform
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = pathlib.Path(sys.argv[1]).resolve()
# Itself, and not in fp32 with numbers made wider.
MULTIPLIES_BF16 = platform.machine() != "x86_64" or any(flag in pathlib.Path("/proc/cpuinfo").read_text() for flag in ("avx512_bf16", "amx_bf16"))
QUICK = ["--synthetic", "--train-samples", "640", "--test-samples", "200", "--model", "lenet", "--batch", "64"]


def run(*arguments, cwd, timeout=600, env=None):
    return subprocess.run([BINARY, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})})


def descendants(pid):
    """Living processes below `pid`, by /proc; zombies do not count."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, frontier = [], {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def processor_seconds(pid):
    """How long it has computed for, in all its threads; 0 where it is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def trains(pids):
    """All of them are in the middle of training: starting takes less than half of this, however long it waits for a processor."""
    return all(processor_seconds(pid) > 0.5 for pid in pids)


def shared_memory():
    """Names in /dev/shm, but for those of MPI libraries, whose ranks other tests kill at the same time."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("vader_segment", "mpich", "Intel_MPI"))}


def listening_ports():
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {line.split()[1] for line in lines if line.split()[3] == "0A"}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ddlbench-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # What this machine's user has measured is none of a test's business.
        os.environ["DDLBENCH_MACHINE"] = str(pathlib.Path(self.folder) / "machine.json")
        self.shm_before = shared_memory()
        self.ports_before = listening_ports()

    def tearDown(self):
        self.assertEqual(shared_memory() - self.shm_before, set())

    def record(self, *arguments, code=0, env=None):
        done = run("run", "--json", *arguments, cwd=self.folder, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def start(self, *arguments):
        """A run that would go on for minutes, and its workers' process numbers once all of them train."""
        process = subprocess.Popen([BINARY, "run", "--json", *map(str, arguments), *QUICK, "--epochs", "100000", "--no-evaluate"],
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def workers(self, process, count):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = descendants(process.pid)
            if len(found) == count and trains(found):
                return found
            time.sleep(0.05)
        self.fail(f"{count} workers did not start; got {len(descendants(process.pid))}")


class Training(Case):
    def check(self, record, ranks):
        self.assertEqual(record["state"], "ok", record["reason"])
        self.assertEqual(len(record["ranks"]), ranks)
        self.assertEqual(record["samples"]["steps"], 10)
        self.assertEqual(len(record["step_ms"]["samples"]), 10)
        self.assertIsNotNone(record["parameters_digest"])
        for rank in record["ranks"]:
            ledger = rank["ledger_ms"]
            self.assertAlmostEqual(sum(ledger.values()), rank["wall_ms"], delta=1e-6 * rank["wall_ms"])
            # Never negative: no moment is counted twice. How small it is, is for bench/harness.py to say.
            self.assertGreater(ledger["residual"], -1e-9)
            self.assertGreater(ledger["forward"], 0)
            self.assertGreater(ledger["backward"], 0)
            self.assertGreater(rank["peak_memory_bytes"], 1 << 20)
            self.assertEqual(rank["memory_bytes"]["parameters"], 61706 * 4)

    def test_one_two_and_three_workers_train_the_same(self):
        losses = {}
        for name, arguments, ranks in [("one", ["--workers", 1], 1), ("two over shm", ["--workers", 2, "--transport", "shm"], 2),
                                       ("three over tcp", ["--workers", 3, "--transport", "tcp"], 3),
                                       ("three over shm, ring", ["--workers", 3, "--transport", "shm", "--collective", "ring"], 3)]:
            with self.subTest(name):
                record = self.record(*QUICK, "--steps", 10, *arguments)
                self.check(record, ranks)
                for rank in record["ranks"]:
                    self.assertEqual(len(rank["cpu_ms"]["samples"]), 10)
                    self.assertGreater(min(rank["cpu_ms"]["samples"]), 0)
                    self.assertLess(rank["cpu_ms"]["median"], os.cpu_count() * rank["step_ms"]["median"] * 1.5)
                losses[name] = record["loss"]["steps"]["value"]
                if ranks > 1:
                    # Every step all-reduces the parameters and one vote; each rank sends 2 (P-1)/P of that, give or
                    # take the rounding of slices. Start, evaluation and digests come on top.
                    payload = 10 * (61706 + 1) * 4 * 2 * (ranks - 1) / ranks
                    for rank in record["ranks"]:
                        self.assertGreater(rank["bytes_sent"], 0.99 * payload)
                        self.assertLess(rank["bytes_sent"], 1.05 * payload)
        for name, values in losses.items():
            for ours, reference in zip(values, losses["one"]):
                self.assertAlmostEqual(ours, reference, delta=1e-4, msg=name)

    def test_the_same_run_gives_the_same_bits(self):
        digests = {self.record(*QUICK, "--steps", 10, "--workers", 2)["parameters_digest"] for _ in range(2)}
        self.assertEqual(len(digests), 1)
        other = self.record(*QUICK, "--steps", 10, "--workers", 2, "--seed", 2)["parameters_digest"]
        self.assertNotIn(other, digests)

    def test_it_learns_synthetic_data(self):
        record = self.record("--synthetic", "--train-samples", 8000, "--test-samples", 1000, "--model", "lenet",
                             "--batch", 50, "--epochs", 3, "--workers", 2, "--learning-rate", 0.02)
        self.assertGreater(record["accuracy"]["top1"], 0.9)
        self.assertEqual(len(record["accuracy"]["epochs"]), 3)
        self.assertLess(record["loss"]["final"], record["loss"]["first"] / 2)

    def test_the_demos_lenet_reaches_90_percent_on_the_real_data(self):
        """studies/first.yaml's own LeNet, two workers over shm, as the study has it: 60,000 real images, 10 epochs."""
        plan = json.loads(run("sweep", "first", "--dry-run", "--json", cwd=self.folder).stdout)
        config = next(each["config"] for each in plan["experiments"] if each["case"] == "lenet, 2 workers, shm")
        words = [f"--set={key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in config.items()
                 if value not in (None, "") and key != "store"]
        record = self.record(*words, "--store", "none")
        self.assertEqual(record["state"], "ok", record["reason"])
        self.assertEqual(len(record["accuracy"]["epochs"]), 10)
        self.assertGreaterEqual(record["accuracy"]["top1"], 0.9)

    def test_resnet_trains_in_two_workers(self):
        record = self.record("--synthetic", "--train-samples", 64, "--test-samples", 20, "--model", "resnet18",
                             "--batch", 8, "--steps", 3, "--workers", 2)
        self.assertEqual(record["state"], "ok", record["reason"])
        self.assertEqual(record["model"]["parameters"], 11172810)

    def test_fp64_equals_whatever_the_number_of_workers(self):
        one, two = (self.record(*QUICK, "--steps", 10, "--precision", "fp64", "--workers", n)["loss"]["steps"]["value"] for n in (1, 2))
        for a, b in zip(one, two):
            self.assertAlmostEqual(a, b, delta=1e-12)

    def test_pytorch_ddp_is_given_the_same_work(self):
        for workers in (1, 2):
            ours = self.record(*QUICK, "--steps", 10, "--workers", workers)
            theirs = self.record(*QUICK, "--steps", 10, "--workers", workers, "--subject", "torch-ddp")
            self.assertEqual(theirs["state"], "ok", theirs["reason"])
            self.assertEqual(theirs["subject"], "torch-ddp")
            self.assertEqual(len(theirs["ranks"]), workers)
            # What is hidden in another package's backward is not known, which is not the same as nothing.
            for rank in theirs["ranks"]:
                self.assertIsNone(rank["ledger_ms"]["communication"])
                self.assertGreater(rank["ledger_ms"]["backward"], 0)
            for a, b in zip(ours["loss"]["steps"]["value"], theirs["loss"]["steps"]["value"]):
                self.assertAlmostEqual(a, b, delta=2e-4)
            self.assertAlmostEqual(ours["accuracy"]["top1"], theirs["accuracy"]["top1"], delta=0.03)


class Buckets(Case):
    """The worker's own: it lays its buckets out anew after the first step, and reduces them while backward goes on."""

    def traced(self, strategy):
        store = pathlib.Path(self.folder) / "traced.db"
        record = self.record("--synthetic", "--train-samples", 128, "--test-samples", 20, "--model", "resnet18", "--batch", 16, "--steps", 4,
                             "--workers", 2, "--strategy", strategy, "--trace", "all", "--no-evaluate", "--store", store)
        return record, [span for span in record["trace"] if span["rank"] == 0]

    def test_gradients_are_reduced_while_backward_goes_on(self):
        record, spans = self.traced("data")
        self.assertGreater(len(record["buckets"]), 1)
        # The first bucket is small, so that it is on its way soon; the others reach 25 MiB or end the list.
        self.assertGreaterEqual(record["buckets"][0]["bytes"], 1 << 20)
        for bucket in record["buckets"][1:-1]:
            self.assertGreaterEqual(bucket["bytes"], 25 << 20)
        for step in range(4):
            backward = next(span for span in spans if span["step"] == step and span["cause"] == "backward")
            reduces = [span for span in spans if span["step"] == step and span["stream"] == "communication"]
            self.assertEqual(len(reduces), len(record["buckets"]))
            self.assertLess(min(span["begin_us"] for span in reduces), backward["end_us"], step)
        _, spans = self.traced("data[overlap=off]")
        for step in range(4):
            backward = next(span for span in spans if span["step"] == step and span["cause"] == "backward")
            for span in spans:
                if span["step"] == step and span["stream"] == "communication":
                    self.assertGreaterEqual(span["begin_us"], backward["end_us"])

    def test_buckets_are_rebuilt_in_the_order_in_which_gradients_came(self):
        first, _ = self.traced("data")
        names = [name for bucket in first["buckets"] for name in bucket["parameters"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), 62)
        # Before anything was seen the order is that of the network's parameters, backwards: the last block's downsampling
        # would come before the convolutions beside it. Autograd comes to it in its own time.
        one = self.record("--synthetic", "--train-samples", 128, "--test-samples", 20, "--model", "resnet18", "--batch", 16, "--steps", 1,
                          "--workers", 2, "--no-evaluate", "--strategy", "data[first-bucket=1B,bucket=1B]")
        self.assertEqual([bucket["parameters"][0] for bucket in one["buckets"]], names)


class Failures(Case):
    def test_a_killed_worker_is_named_within_a_second(self):
        for transport in ("shm", "tcp"):
            took = []
            # A machine that others share may keep everybody waiting for a while: within a second in one of three.
            while not took or (min(took) >= 1.0 and len(took) < 3):
                process = self.start("--workers", 2, "--transport", transport)
                victim = sorted(self.workers(process, 2))[1]
                os.kill(victim, signal.SIGKILL)
                killed = time.monotonic()
                output, errors = process.communicate(timeout=30)
                # To notice, to end the others and to write the record.
                took.append(time.monotonic() - killed)
                self.assertEqual(process.returncode, 1, errors)
                record = json.loads(output)
                self.assertEqual(record["state"], "failed")
                self.assertIn("rank 1", record["reason"])
                self.assertIn("signal 9", record["reason"])
                self.assertGreater(record["samples"]["steps"], 0)
                self.assertFalse(alive(victim))
                self.assertEqual(descendants(process.pid), [])
                self.assertEqual(listening_ports() - self.ports_before, set())
                kept = run("status", "--json", cwd=self.folder)
                self.assertIn("failed", kept.stdout)
            self.assertLess(min(took), 1.0, transport)

    def test_interrupt_ends_with_a_whole_record(self):
        process = self.start("--workers", 2)
        self.workers(process, 2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        record = json.loads(output)
        self.assertEqual(record["state"], "interrupted")
        self.assertGreater(record["samples"]["steps"], 0)
        for rank in record["ranks"]:
            self.assertIn("ledger_ms", rank)
            self.assertIsNotNone(rank["bytes_sent"])
        self.assertIsNotNone(record["parameters_digest"])
        self.assertEqual(descendants(process.pid), [])

    EVALUATES = ["--synthetic", "--train-samples", "64", "--test-samples", "30000", "--model", "resnet18", "--steps", "1", "--workers", "2"]

    def whole(self, record):
        self.assertEqual(record["samples"]["steps"], 1)
        self.assertIsNotNone(record["parameters_digest"])
        for rank in record["ranks"]:
            self.assertGreater(rank["bytes_sent"], 0)
            self.assertGreater(rank["peak_memory_bytes"], 0)

    def test_an_interrupt_while_evaluating_ends_at_once_with_a_whole_record(self):
        process = subprocess.Popen([BINARY, "run", "--json", *self.EVALUATES], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.workers(process, 2)
        # On no terminal a line comes every 5 s: one of them says what goes on.
        for line in process.stderr:
            if "evaluating" in line:
                break
        process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        output, errors = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - asked, 10)
        self.assertEqual(process.returncode, 130, errors)
        self.whole(json.loads(output))

    def test_a_time_limit_ends_an_evaluation(self):
        begin = time.monotonic()
        record = self.record(*self.EVALUATES, "--timeout", "6s", code=124)
        self.assertLess(time.monotonic() - begin, 16)
        self.assertEqual(record["state"], "timeout")
        self.whole(record)

    def test_no_worker_outlives_a_killed_coordinator(self):
        process = self.start("--workers", 2)
        workers = self.workers(process, 2)
        process.kill()
        process.wait()
        until = time.monotonic() + 5
        while any(map(alive, workers)) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(any(map(alive, workers)))
        # The next command finds the run that nobody finished, and says so.
        kept = run("status", "--json", cwd=self.folder)
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertIn("interrupted", kept.stdout)

    def test_a_time_limit_ends_a_run(self):
        process = self.start("--workers", 2, "--timeout", "3s")
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 124, errors)
        self.assertEqual(json.loads(output)["state"], "timeout")

    def bad(self, *arguments, code, words, env=None):
        done = run("run", "--json", *arguments, cwd=self.folder, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("ddlbench: error:")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        return lines[0]

    def test_a_failing_peer_is_quoted(self):
        python = pathlib.Path(self.folder) / "python"
        real = pathlib.Path(__file__).resolve().parent.parent / ".deps" / "venv" / "bin" / "python"
        python.write_text('#!/bin/sh\ncase "$*" in\n'
                          """  *torch_ddp.py*) [ "$RANK" = 1 ] && { echo '{"event":"error","message":"no luck today"}'; exit 1; }; sleep 60 ;;\n"""
                          f'  *) exec {real} "$@" ;;\nesac\n')
        python.chmod(0o755)
        record = self.record(*QUICK, "--steps", 5, "--workers", 2, "--subject", "torch-ddp", code=1,
                             env={"DDLBENCH_PYTHON": str(python)})
        self.assertEqual(record["state"], "failed")
        self.assertEqual(record["reason"], "rank 1: no luck today")

    def test_the_last_lines_of_a_dead_worker_are_told(self):
        python = pathlib.Path(self.folder) / "python"
        real = pathlib.Path(__file__).resolve().parent.parent / ".deps" / "venv" / "bin" / "python"
        python.write_text('#!/bin/sh\ncase "$*" in\n'
                          """  *torch_ddp.py*) [ "$RANK" = 1 ] && { echo 'Bus error in libfancy.so' >&2; kill -SEGV $$; }; sleep 60 ;;\n"""
                          f'  *) exec {real} "$@" ;;\nesac\n')
        python.chmod(0o755)
        record = self.record(*QUICK, "--steps", 5, "--workers", 2, "--subject", "torch-ddp", code=1,
                             env={"DDLBENCH_PYTHON": str(python)})
        self.assertEqual(record["state"], "failed")
        for word in ("rank 1", "signal 11", "Bus error in libfancy.so"):
            self.assertIn(word, record["reason"])

    def test_an_interrupt_while_starting_is_not_lost(self):
        for delay in (0, 0.05, 0.2, 0.5):
            store = pathlib.Path(self.folder) / f"{delay}.db"
            process = self.start("--workers", 2, "--store", store)
            while not store.exists() and process.poll() is None:
                time.sleep(0.001)
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 130, errors)
            self.assertEqual(json.loads(output)["state"], "interrupted")

    def test_more_workers_than_samples(self):
        self.bad("--synthetic", "--train-samples", 3, "--workers", 4, "--steps", 1, code=2, words=["more workers than samples", "4", "3"])

    def test_a_device_that_is_absent(self):
        """97 GPUs are on no machine; what else is missing (LibTorch's CUDA, a driver) is said first."""
        self.bad(*QUICK, "--workers", "cuda[index=97]:2", "--steps", 1, code=6, words=["--workers", "unsupported: no device 'cuda:97': "])
        self.bad(*QUICK, "--workers", "cuda[index=many]", "--steps", 1, code=2, words=["--workers", "many"])
        self.bad(*QUICK, "--workers", "cpu[index=0]:2", "--steps", 1, code=2, words=["--workers", "index"])
        done = run("list", "devices", "--json", cwd=self.folder)
        devices = {each["name"]: each for each in json.loads(done.stdout)["items"]}
        self.assertTrue(devices["cpu"]["available"])
        if not devices["cuda"]["available"]:
            self.bad(*QUICK, "--workers", "cuda:1", "--steps", 1, code=6, words=["no device 'cuda:0': " + devices["cuda"]["reason"][:60]])

    def idx(self, change):
        """A tiny data set of four IDX files, one of them damaged."""
        folder = pathlib.Path(self.folder) / "data"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for part, count in (("train", 20), ("t10k", 10)):
            images = struct.pack(">IIII", 0x803, count, 28, 28) + bytes(i * 7 % 256 for i in range(count * 784))
            labels = struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count))
            for name, content in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
                content = change(name, content)
                if content is not None:
                    (folder / name).write_bytes(content)
        return folder

    def test_damaged_idx_files(self):
        target = "train-images-idx3-ubyte"
        damages = {
            "truncated": (lambda c: c[:-100], target),
            "wrong magic": (lambda c: b"\x01\x00\x08\x03" + c[4:], target),
            "too many": (lambda c: c[:4] + struct.pack(">I", 21) + c[8:], target),
            "missing": (lambda c: None, target),
            "label out of range": (lambda c: c[:-1] + b"\x0b", "train-labels-idx1-ubyte"),
            "corrupt gzip": (lambda c: gzip.compress(c)[:-20] + bytes(20), target),
        }
        for name, (damage, file) in damages.items():
            with self.subTest(name):
                folder = self.idx(lambda n, c: damage(c) if n == file else c)
                line = self.bad("--data", folder, "--steps", 1, "--batch", 4, code=2 if name == "missing" else 1, words=[file])
                self.assertNotIn("\n", line)
        folder = self.idx(lambda n, c: c)
        self.assertEqual(self.record("--data", folder, "--steps", 2, "--batch", 4)["state"], "ok")

    def test_a_store_of_a_newer_schema_is_left_alone(self):
        self.record(*QUICK, "--steps", 1)
        store = pathlib.Path(self.folder) / "ddlbench.db"
        content = bytearray(store.read_bytes())
        content[60:64] = struct.pack(">I", 999)  # user_version in SQLite's header
        store.write_bytes(content)
        self.bad(*QUICK, "--steps", 1, code=6, words=["999", "ddlbench.db"])
        self.assertEqual(store.read_bytes(), bytes(content))

    @unittest.skipUnless(os.geteuid() == 0, "a file system that fills up needs root to mount one")
    def test_a_full_disk_loses_nothing(self):
        disk = pathlib.Path(self.folder) / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True).returncode != 0:
            self.skipTest("a file system that fills up needs the right to mount one (CAP_SYS_ADMIN)")
        self.addCleanup(subprocess.run, ["umount", disk])
        self.record(*QUICK, "--steps", 1, "--trace", "off", "--store", disk / "a.db")
        before = run("status", "--json", "--store", disk / "a.db", cwd=self.folder).stdout
        filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, bytes(4096))
        except OSError:
            pass
        finally:
            os.close(filler)
        rescue = pathlib.Path(self.folder) / "rescue"
        rescue.mkdir()
        done = run("run", *QUICK, "--steps", 20, "--store", disk / "a.db", cwd=self.folder, env={"TMPDIR": str(rescue)})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("a.db", done.stderr)
        (disk / "filler").unlink()
        after = run("status", "--json", "--store", disk / "a.db", cwd=self.folder).stdout
        self.assertIn(json.loads(before)["runs"][0]["id"], after)
        saved = list(rescue.glob("*.json"))
        if saved:  # the run went ahead and its record was kept elsewhere
            self.assertIn(str(saved[0]), done.stderr)
            self.assertEqual(json.loads(saved[0].read_text())["state"], "ok")
            # The next command that writes there puts it back, if the store knew of the run at all.
            known = json.loads(after)["runs"]
            if json.loads(saved[0].read_text())["id"] in [row["id"] for row in known]:
                again = run("run", *QUICK, "--steps", 1, "--store", disk / "a.db", cwd=self.folder, env={"TMPDIR": str(rescue)})
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertFalse(saved[0].exists())
        else:      # or it was refused before any work was done
            self.assertIn("no space left", done.stderr.lower())


    @unittest.skipUnless(os.geteuid() == 0, "a file system that fills up needs root to mount one")
    def test_a_full_disk_keeps_the_page_and_the_export_that_were_there(self):
        disk = pathlib.Path(self.folder) / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True).returncode != 0:
            self.skipTest("a file system that fills up needs the right to mount one (CAP_SYS_ADMIN)")
        self.addCleanup(subprocess.run, ["umount", disk])
        (disk / "page.html").write_text("yesterday's page")
        (disk / "run.json").write_text("yesterday's run")
        study = pathlib.Path(self.folder) / "small.yaml"
        study.write_text("study: small\nbase: {synthetic: true, train_samples: 64, test_samples: 64, batch: 32, steps: 2}\n"
                         "matrix:\n  - [{workers: 1}]\n")
        done = run("sweep", study, "--report", disk / "page.html", cwd=self.folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("page.html", done.stderr)
        self.assertIn("no space left", done.stderr.lower())
        # The run itself is kept, and only the page has to be made again.
        self.assertEqual(json.loads(run("status", "--json", cwd=self.folder).stdout)["counts"], {"ok": 1})
        (disk / "filler").write_bytes(bytes(200 << 10))
        try:
            with open(disk / "rest", "wb", buffering=0) as rest:
                while True:
                    rest.write(bytes(1024))
        except OSError:
            pass
        done = run("export", "latest", "-o", disk / "run.json", cwd=self.folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("run.json", done.stderr)
        self.assertEqual((disk / "page.html").read_text(), "yesterday's page")
        self.assertEqual((disk / "run.json").read_text(), "yesterday's run")
        self.assertEqual(sorted(path.name for path in disk.iterdir()), ["filler", "page.html", "rest", "run.json"])


class Results(Case):
    def test_what_was_run_can_be_exported_and_reported(self):
        record = self.record(*QUICK, "--steps", 5, "--workers", 2)
        out = run("export", "latest", "--format", "json", cwd=self.folder)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(json.loads(out.stdout)["id"], record["id"])
        out = run("export", "latest", "--format", "csv", cwd=self.folder)
        self.assertEqual(len(out.stdout.splitlines()), 1 + 5 * 2, out.stdout)
        out = run("export", "latest", "--format", "chrome", cwd=self.folder)
        events = json.loads(out.stdout)["traceEvents"]
        self.assertTrue(any(event["ph"] == "X" and event["name"] == "forward" for event in events))
        self.assertTrue(any(event["ph"] == "X" and event["name"].startswith("all-reduce") for event in events))
        page = pathlib.Path(self.folder) / "r.html"
        self.assertEqual(run("report", "-o", page, cwd=self.folder).returncode, 0)
        self.assertIn("vega", page.read_text())

    def test_a_sweep_goes_on_where_it_stopped(self):
        study = pathlib.Path(self.folder) / "small.yaml"
        study.write_text("study: small\nbase: {synthetic: true, train_samples: 256, test_samples: 64, batch: 32, steps: 3}\n"
                         "matrix:\n  - [{workers: 1}, {workers: 2, transport: shm}]\n")
        first = run("sweep", study, "--report", "out.html", cwd=self.folder)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertTrue((pathlib.Path(self.folder) / "out.html").exists())
        again = run("sweep", study, cwd=self.folder)
        self.assertEqual(again.returncode, 0, again.stderr)
        rows = json.loads(run("status", "--json", cwd=self.folder).stdout)
        self.assertEqual(rows["counts"], {"ok": 2})
        self.assertEqual(len(rows["runs"]), 2)

    def test_unequal_batches_are_compared_only_where_asked_for(self):
        study = pathlib.Path(self.folder) / "weak.yaml"
        study.write_text("base: {synthetic: true, train_samples: 256, test_samples: 64, steps: 3}\n"
                         "experiments:\n  - {strategy: single, workers: 1, batch: 16}\n  - {strategy: data, workers: 2, batch: 32}\n")
        refused = run("sweep", study, cwd=self.folder)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("got 16 for single with cpu:1 and 32 for data with cpu:2", refused.stderr)
        self.assertFalse((pathlib.Path(self.folder) / "ddlbench.db").exists())
        asked = run("sweep", study, "--unequal-batch", "--report", "together.html", cwd=self.folder)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn("stand together, as was asked for", asked.stderr)
        for arguments, said, line in (((), "Global batches differ", False), (("--unequal-batch",), "as was asked for", True)):
            self.assertEqual(run("report", "-o", "page.html", *arguments, cwd=self.folder).returncode, 0)
            page = (pathlib.Path(self.folder) / "page.html").read_text()
            self.assertIn(said, page)
            self.assertEqual("data over shm, 16 samples a worker" in page, line)
            self.assertEqual("lenet on fashion-mnist, batch 16</th>" in page, not line)

    def sweep_of(self, experiments):
        study = pathlib.Path(self.folder) / "small.yaml"
        study.write_text("study: small\nbase: {train_samples: 256, test_samples: 64, batch: 32, steps: 3}\n"
                         "experiments:\n" + "".join(f"  - {one}\n" for one in experiments))
        return run("sweep", study, "--json", cwd=self.folder)

    def test_what_is_known_to_be_wrong_is_refused_before_anything_runs(self):
        done = self.sweep_of(["{synthetic: true, workers: 1}", "{synthetic: true, workers: 64}"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("small.yaml:5:", done.stderr)
        self.assertIn("workers: more workers than samples of a batch; got 64 workers, expected at most 32", done.stderr)
        self.assertFalse((pathlib.Path(self.folder) / "ddlbench.db").exists())

    def test_one_experiment_that_cannot_run_does_not_stop_the_others(self):
        done = self.sweep_of(["{data: nowhere}", "{synthetic: true, workers: 1}"])
        self.assertEqual(done.returncode, 4, done.stderr)
        failed, other = json.loads(done.stdout)["runs"]
        self.assertEqual((failed["state"], other["state"]), ("failed", "ok"))
        self.assertIn("small.yaml:4:", failed["reason"])
        self.assertIn("nowhere", failed["reason"])

    def test_selftest_passes(self):
        done = run("selftest", "--workers", 1, "--steps", 50, "--json", cwd=self.folder)
        self.assertEqual(json.loads(done.stdout)["schema"], "ddlbench.selftest/1")
        self.assertTrue(math.isfinite(json.loads(done.stdout)["overhead_percent"]))


class Output(Case):
    """What scripts and terminals get."""

    def test_json_is_one_document_whatever_the_command(self):
        self.record(*QUICK, "--steps", 3)
        study = pathlib.Path(self.folder) / "small.yaml"
        study.write_text("study: small\nbase: {synthetic: true, train_samples: 64, test_samples: 64, batch: 32, steps: 2}\n"
                         "matrix:\n  - [{workers: 1}]\n")
        schemas = {"sweep small.yaml": "sweep", "sweep small.yaml --dry-run": "study", "run --dry-run": "config", "resume": "sweep",
                   "status": "status", "list models": "list", "doctor": "doctor", "env": "env", "report -o r.html": "report",
                   "export latest": "run", "export latest --format csv -o r.csv": "export", "selftest --workers 1 --steps 20": "selftest",
                   "probe comm --transport shm --collective broadcast --sizes 1KiB --budget 1ms --machine none": "probe",
                   "predict --model lenet --batch 64 --workers 1,2 --machine v100-16gb": "predict", "validate megatron-sc21": "validate", "explain latest": "explain",
                   "advise --model lenet --synthetic --batch 64 --workers 2 --machine v100-16gb --budget 1s": "advise",
                   "completion bash": "completion", "man": "man", "man --out man1": "man",
                   "run --synthetic --train-samples 64 --batch 32 --steps 2 --no-evaluate": "run",
                   "run --synthetic --train-samples 64 --batch 32 --steps 2 --no-evaluate --repeat 2": "runs"}
        commands = {line.split()[0] for line in schemas}
        listed = run("--help", cwd=self.folder).stdout
        self.assertEqual({line.split()[0] for line in listed.splitlines() if re.match(r"  [a-z]+  ", line)} - commands, set())
        for line, schema in schemas.items():
            with self.subTest(line):
                done = run(*line.split(), "--json", cwd=self.folder)
                self.assertIn(done.returncode, (0, 6) if line == "doctor" else (0, 1) if "selftest" in line else (0,), done.stderr)
                self.assertEqual(json.loads(done.stdout)["schema"], f"ddlbench.{schema}/1")

    def test_what_is_no_document_is_refused_beside_json(self):
        self.record(*QUICK, "--steps", 2)
        for line in ("export latest --format csv --json", "report -o - --json"):
            done = run(*line.split(), cwd=self.folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""), line)
            self.assertIn("expected", done.stderr)

    def test_a_terminal_sees_progress_on_one_line(self):
        mine, its = pty.openpty()
        process = subprocess.Popen([BINARY, "run", *QUICK, "--epochs", "40", "--workers", "2", "--no-evaluate"], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its, env={**os.environ, "TERM": "xterm"})
        os.close(its)
        seen = b""
        while True:
            try:
                piece = os.read(mine, 4096)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        os.close(mine)
        self.assertEqual(process.wait(60), 0, seen)
        updates = seen.decode().split("\r\x1b[K")
        steps = [int(found.group(1)) for found in (re.search(r"step (\d+)/400, [\d.]+ samples/s, loss [\d.]+", part) for part in updates) if found]
        self.assertGreater(len(steps), 2, seen)
        self.assertEqual(steps, sorted(steps))
        self.assertNotIn("\n", "".join(part for part in updates if "samples/s, loss" in part))


class Strangers(Case):
    def test_a_stranger_on_the_port_does_not_disturb_a_run(self):
        """Connects to whatever the workers listen on while they find each other."""
        process = self.start("--workers", 2, "--transport", "tcp")
        until, tried = time.monotonic() + 20, 0
        while time.monotonic() < until and tried < 3 and process.poll() is None:
            for address in listening_ports() - self.ports_before:
                host, port = address.split(":")
                if host != "0100007F":
                    continue
                try:
                    with socket.create_connection(("127.0.0.1", int(port, 16)), timeout=0.2) as stranger:
                        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                        tried += 1
                except OSError:
                    pass
            found = descendants(process.pid)
            if len(found) == 2 and trains(found):
                break
        self.workers(process, 2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertGreater(json.loads(output)["samples"]["steps"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
