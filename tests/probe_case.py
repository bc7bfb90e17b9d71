"""What the probes' tests share: a folder, a machine profile in it, and nothing left in /dev/shm."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest


class Case(unittest.TestCase):
    #: what each command begins with: the binary, and words of the command
    command = []

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddlbench-probe-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.machine = self.folder / "config/machine.json"
        self.environment = {**os.environ, "DDLBENCH_MACHINE": str(self.machine)}
        self.shm_before = set(os.listdir("/dev/shm"))

    def tearDown(self):
        self.assertEqual(set(os.listdir("/dev/shm")) - self.shm_before, set())

    def run_it(self, *arguments, code=0):
        done = subprocess.run([*self.command, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=500, env=self.environment)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        return done

    def document(self, *arguments, code=0):
        return json.loads(self.run_it(*arguments, "--json", code=code).stdout)


def no_fabric():
    """Why no test network can be made here; empty where it can."""
    if os.geteuid() != 0:
        return "a test network takes root"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "a test network takes iproute2"
    # What a fabric is made of, one by one: a kernel or a sandbox may lack any.
    pieces = """set -e; name=ddlprobe-$$; ip netns add $name; trap "ip netns del $name" EXIT
                nsenter --net=/run/netns/$name sh -ec 'ip link set lo up; ip link add here type veth peer name there
                  ip link add between type bridge; ip link set here gso_max_size 32768
                  tc qdisc add dev here root tbf rate 1mbit burst 10kb latency 10ms'"""
    tried = subprocess.run(["sh", "-c", pieces], capture_output=True, text=True)
    return "" if tried.returncode == 0 else "no test network can be made here: " + " ".join(tried.stderr.split())
