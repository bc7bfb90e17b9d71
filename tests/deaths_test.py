"""A worker of every strategy is killed in every phase that its ranks have: the run ends as `failed` with the rank named, in time, and leaves nothing.

usage: deaths_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import statistics
import sys
import time
import unittest

from strategy_forms import FORMS, cut_by_flops, in_process
from training_test import Case, alive, descendants, listening_ports, run, shared_memory

# Over shm, tcp and inproc the others lose a killed rank at once (docs/failures.md). The coordinator hears of it from the kernel, lets the others say for 0.3 s what they saw
# (kAftermath in src/ddl/lab/coordinator.cpp), kills them and writes the record: under a second in all. One that does much else may take 5 s longer, as in peer_death_test.cpp; most do not
# take twice as long.
QUIET = 1
BOUND, USUAL = QUIET + 5, 2 * QUIET
# Of no step, and of every rank; no form here has more ranks than these are.
OUTSIDE_STEPS = ("setup", "connect", "epoch", "evaluate", "end")
# Both epochs have a last step, and an averaging.
JOB = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", 144, "--test-samples", 48, "--batch", 48, "--epochs", 2, "--learning-rate", 0.01]
AT_ONCE = min(2, os.cpu_count())


def phases_of(record):
    """What a death can strike, by what the plan's roles do, and the ranks that do it."""
    phases = {}
    for role in record["plan"]["roles"]:
        for task in role["tasks"]:
            cargo = task.get("cargo", "none")
            what = f"server {task['kind']}" if task["name"].startswith("serve: ") else task["kind"] if cargo == "none" else f"{task['kind']} {cargo}"
            phases.setdefault(what, set()).update(range(role["first"], role["first"] + role["count"]))
    return phases


def processes_of(case):
    """Living ones that have a case's mark in their environment, whoever is their parent by now."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and case.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def stay(names, look):
    """Of names that were not there before, those that do not go: others' runs beside this one have theirs for a moment."""
    until = time.monotonic() + 3
    while names and time.monotonic() < until:
        time.sleep(0.05)
        names &= look()
    return names


def ports_of_others():
    """Where processes listen that are no run of ddlbench's."""
    inodes = {}
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        inodes[f"socket:[{fields[9]}]"] = fields[1]
    ports = set()
    for process in pathlib.Path("/proc").iterdir():
        try:
            if not process.name.isdigit() or "ddlbench" in (process / "comm").read_text():
                continue
            ports |= {inodes[link] for link in map(os.readlink, (process / "fd").iterdir()) if link in inodes}
        except OSError:
            continue
    return ports


class Death:
    """A run whose rank is killed as it begins something, and what came of it."""

    def __init__(self, folder, form, what, rank, number):
        self.name = f"{form}: rank {rank} dies at {what}"
        self.form, self.what, self.rank = form, what, rank
        case = f"{os.getpid()}-{number}-{what}"
        transport = [] if in_process(form) or FORMS[form] == 1 else ["--transport", ("shm", "tcp")[number % 2]]
        ports, memory = listening_ports(), shared_memory()
        self.done = run("run", "--json", "--strategy", form if what == "measure" else cut_by_flops(form), "--workers", FORMS[form], *transport, *JOB, cwd=folder,
                        timeout=120, env={"DDLBENCH_TEST_DEATH": f"{rank}:1:{what}", "DDLBENCH_TEST_CASE": case})
        ended = time.monotonic()
        self.record = json.loads(self.done.stdout) if self.done.stdout else {}
        died = re.search(r"dies at ([0-9.]+)", " ".join(self.record.get("messages", [])))
        self.seconds = ended - float(died[1]) if died else None
        self.processes = processes_of(case)
        self.ports, self.memory = listening_ports() - ports, shared_memory() - memory


class Deaths(Case):
    def check(self, death, state="failed"):
        with self.subTest(death.name):
            record = death.record
            self.assertEqual(death.done.returncode, 1 if state == "failed" else 0, death.done.stderr)
            self.assertEqual(record["state"], state)
            if state == "failed":
                # Threads of one process end together.
                named = f"rank {0 if in_process(death.form) else death.rank} "
                self.assertIn(named, record["reason"])
                self.assertIn("signal 9", record["reason"])
                self.assertIn(named, death.done.stderr)
                self.assertIsNotNone(death.seconds, record["messages"])
                self.assertLess(death.seconds, BOUND)
            self.assertEqual(death.processes, [])
            if death.ports:
                self.assertEqual(stay(death.ports, lambda: listening_ports() - ports_of_others()), set())
            self.assertEqual(stay(death.memory, shared_memory), set())

    def all_of(self, cases):
        """(form, phase, rank), some at once."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda numbered: Death(self.folder, *numbered[1], numbered[0]), enumerate(cases)))

    def test_in_every_phase_of_every_strategy(self):
        outside = self.all_of([(form, what, number % workers) for form, workers in FORMS.items() for number, what in enumerate(OUTSIDE_STEPS)])
        # What is told of the plan is that of runs that trained.
        cases = []
        for death in outside:
            if death.what == "end":
                for what, ranks in sorted(phases_of(death.record).items()):
                    cases.append((death.form, what, sorted(ranks)[len(cases) % len(ranks)]))
        deaths = outside + self.all_of(cases)
        for death in deaths:
            self.check(death)
        for form, workers in FORMS.items():
            self.assertEqual({death.rank for death in deaths if death.form == form}, set(range(workers)), form)
        took = [death.seconds for death in deaths if death.seconds]
        usual = statistics.median(took)
        print(f"{len(deaths)} deaths; ended after {usual:.2f} s (median), {max(took):.2f} s at most", file=sys.stderr)
        self.assertLess(usual, USUAL)

    def test_measuring_layers_is_not_what_a_run_depends_on(self):
        """That process is no worker: without what it would have found, the network is cut by FLOPs."""
        for death in self.all_of([(form, "measure", 0) for form in FORMS if cut_by_flops(form) != form or "balance=pipedream" in form]):
            # Split layers are not measured.
            if "tensor" in death.form:
                continue
            self.check(death, "ok")
            with self.subTest(death.name):
                self.assertIn("signal 9", " ".join(death.record["messages"]))
                self.assertIsNone(death.record["measured_layers"])

    def test_at_any_moment(self):
        def strike(form):
            workers = 1 if in_process(form) else FORMS[form]
            process = self.start("--workers", FORMS[form], "--strategy", cut_by_flops(form))
            until = time.monotonic() + 60
            while len(victims := sorted(descendants(process.pid))) < workers and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(random.uniform(0.3, 0.8))
            rank = random.randrange(workers)
            os.kill(victims[rank], signal.SIGKILL)
            killed = time.monotonic()
            output, errors = process.communicate(timeout=60)
            return form, rank, process.returncode, output, errors, time.monotonic() - killed, [pid for pid in victims if alive(pid)]

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for form, rank, code, output, errors, took, left in pool.map(strike, FORMS):
                with self.subTest(form):
                    self.assertEqual(code, 1, errors)
                    record = json.loads(output)
                    self.assertEqual(record["state"], "failed")
                    self.assertIn(f"rank {rank} ", record["reason"])
                    self.assertIn("signal 9", record["reason"])
                    self.assertLess(took, BOUND)
                    self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
