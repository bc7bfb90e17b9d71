"""End to end through the binary: which cores a run's workers compute on, and when it leaves that to the kernel.

Other runs on this machine, of other tests too, may have cores: then a run says so, and is tried again.

usage: pinning_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import fcntl
import os
import pathlib
import signal
import sys
import time
import unittest

from training_test import BINARY, QUICK, Case, json, run, subprocess

CORES = sorted(os.sched_getaffinity(0))
PATIENCE = 600


def cores_of(record):
    return [rank["cores"] for rank in record["ranks"]]


class Pinning(Case):
    def undisturbed(self, *arguments, prefix=()):
        """The record of a run that found no core taken by another one."""
        until = time.monotonic() + PATIENCE
        while True:
            done = subprocess.run([*map(str, prefix), BINARY, "run", "--json", *QUICK, "--steps", "4", "--no-evaluate", "--store", "none", *map(str, arguments)],
                                  cwd=self.folder, capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            record = json.loads(done.stdout)
            if not any((cores["not_bound"] or "").startswith("another run has") for cores in cores_of(record)):
                return record
            self.assertLess(time.monotonic(), until, "other runs have the cores all the time")
            time.sleep(0.5)

    def test_each_worker_has_a_core_of_its_own(self):
        workers = min(2, len(CORES))
        bound = [cores["bound"] for cores in cores_of(self.undisturbed("--workers", workers))]
        self.assertEqual([len(each) for each in bound], [1] * workers)
        self.assertEqual(len({unit for each in bound for unit in each}), workers)
        self.assertLessEqual({unit for each in bound for unit in each}, set(CORES))

    def test_each_thread_has_a_core_of_its_own(self):
        threads = min(2, len(CORES))
        (cores,) = cores_of(self.undisturbed("--workers", f"cpu[threads={threads}]"))
        self.assertEqual(len(set(cores["bound"])), threads)

    def test_workers_that_are_threads_of_one_process_have_cores_too(self):
        workers = min(2, len(CORES))
        bound = [cores["bound"] for cores in cores_of(self.undisturbed("--workers", workers, "--strategy", "data[in-process=parallel]", "--transport", "inproc"))]
        self.assertEqual(len({tuple(each) for each in bound}), workers)

    def test_more_threads_than_cores_are_left_to_the_kernel(self):
        for workers in (len(CORES) + 1, f"cpu[threads={len(CORES)}]:2"):
            with self.subTest(workers=workers):
                for cores in cores_of(self.undisturbed("--workers", workers)):
                    self.assertIsNone(cores["bound"])
                    self.assertRegex(cores["not_bound"], rf"^the workers here have {len(CORES) + 1 if workers == len(CORES) + 1 else 2 * len(CORES)} threads and may use {len(CORES)} ")

    def test_what_the_run_itself_may_use_is_kept_to(self):
        """As `taskset -c` has it: one worker fits on its one core, two do not."""
        last = CORES[-1]
        (one,) = cores_of(self.undisturbed(prefix=["taskset", "-c", last]))
        self.assertEqual((one["bound"], one["not_bound"]), ([last], None))
        for cores in cores_of(self.undisturbed("--workers", 2, prefix=["taskset", "-c", last])):
            self.assertEqual((cores["bound"], cores["not_bound"]), (None, "the workers here have 2 threads and may use 1 processing units"))

    def test_it_can_be_turned_off(self):
        record = self.undisturbed("--pin", "off")
        self.assertEqual(record["config"]["pin"], "off")
        self.assertEqual([(cores["bound"], cores["not_bound"]) for cores in cores_of(record)], [(None, "pin is off")])
        self.assertEqual(self.undisturbed()["config"]["pin"], "auto")

    def test_emulated_workers_wait_where_they_like(self):
        for cores in cores_of(self.undisturbed("--workers", "emulated:v100:2")):
            self.assertEqual((cores["bound"], cores["not_bound"]), (None, "an emulated worker waits instead of computing"))

    def test_cores_of_another_run_are_left_alone(self):
        """This test has the first core, as a run would."""
        folder = os.open(f"/sys/devices/system/cpu/cpu{CORES[0]}", os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)  # once nobody else has it
        done = run("run", "--json", *QUICK, "--steps", 4, "--no-evaluate", "--store", "none", "--workers", len(CORES), cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *others = cores_of(json.loads(done.stdout))
        self.assertEqual((first["bound"], first["not_bound"]), (None, f"another run has processing unit {CORES[0]}"))
        for cores in others:
            self.assertNotIn(CORES[0], cores["bound"] or [])

    def test_threads_that_compute_are_bound_and_others_are_not(self):
        workers = min(2, len(CORES))
        until = time.monotonic() + PATIENCE
        while True:
            process = self.start("--workers", workers)
            pids = self.workers(process, workers)
            seen = [{task.name: os.sched_getaffinity(int(task.name)) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()} for pid in pids]
            os.kill(process.pid, signal.SIGINT)
            record = json.loads(process.communicate(timeout=120)[0])
            by_pid = {rank["pid"]: rank["cores"]["bound"] for rank in record["ranks"]}
            if all(by_pid.values()):
                break
            self.assertLess(time.monotonic(), until, "other runs have the cores all the time")
        for pid, affinities in zip(pids, seen):
            computing = affinities.pop(str(pid))
            self.assertEqual(sorted(computing), by_pid[pid])
            self.assertGreaterEqual(len(affinities), 1, "the loader's thread at least")
            for thread, allowed in affinities.items():
                self.assertEqual(sorted(allowed), CORES, f"thread {thread} of {pid}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
