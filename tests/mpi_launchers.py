"""How tests start ranks by each MPI's own launcher, and how they find what is left of them."""
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid

PACKAGES = {"openmpi": "Debian's openmpi-bin", "mpich": "Debian's mpich", "intel": "PyPI's impi-rt"}


def intel(home):
    return {"I_MPI_ROOT": home, "PATH": f"{home}/bin:{os.environ['PATH']}", "LD_LIBRARY_PATH": f"{home}/lib", "FI_PROVIDER_PATH": f"{home}/lib",
            "I_MPI_HYDRA_BOOTSTRAP": "fork", "I_MPI_FABRICS": "shm", "I_MPI_WAIT_MODE": "1", "I_MPI_THREAD_YIELD": "3"}


def launcher(kind, home=None):
    """(command without the number of ranks, environment)"""
    if kind == "openmpi":
        return ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"], {}
    if kind == "mpich":
        return ["mpiexec.mpich"], {}
    return [f"{home}/bin/mpiexec.hydra"], intel(home)


def missing(kind, command, environment):
    """Why it cannot be started; None where it can."""
    if not shutil.which(command[0], path=environment.get("PATH", os.environ["PATH"])):
        return f"{command[0]} is missing ({PACKAGES[kind]})"
    return None


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def left_behind(mark):
    """Processes with `mark`, "NAME=value", in their environment that still run, but for this one."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                state = re.search(r"^State:\s+(\S)", (folder / "status").read_text(), re.M)
                if state and state.group(1) != "Z":
                    found.append((folder.name, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except OSError:
            pass
    return found


@dataclasses.dataclass
class Job:
    code: int
    output: str
    took: float
    left: str  # what is left of it, in words; empty where nothing is


def names_in_memory():
    return {path.name for path in pathlib.Path("/dev/shm").iterdir()}


def in_use(name):
    """Whether a process has it open or mapped."""
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            if f"/dev/shm/{name}" in maps.read_text():
                return True
        except OSError:
            pass
    return False


def run(command, environment, limit, leaves=None):
    """Runs a launcher, and looks for what it leaves: processes, names in /dev/shm, files where TMPDIR says. What is left of
    one that takes longer than `limit` is killed, and what may be left in /dev/shm (`leaves`, a pattern) is removed."""
    mark = f"DDLBENCH_TEST={uuid.uuid4().hex}"
    name, value = mark.split("=")
    temporary = environment.get("TMPDIR")
    if temporary:
        os.mkdir(temporary)
    before = names_in_memory()
    begin = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, **environment, name: value}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL)
    left = ""
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        left = f"the whole job, after {limit} s"
        for pid, _ in left_behind(mark):
            os.kill(int(pid), signal.SIGKILL)
        process.kill()
        output, _ = process.communicate()
    took = time.monotonic() - begin

    def what_is_left():
        if found := left_behind(mark):
            return f"processes are left: {found}"
        if leaves:
            for path in pathlib.Path("/dev/shm").glob(leaves):
                if path.name not in before and not in_use(path.name):
                    path.unlink(missing_ok=True)
        # Not what others on this machine have made meanwhile, and use.
        if found := [each for each in names_in_memory() - before if not in_use(each)]:
            return f"names are left in /dev/shm: {found}"
        if temporary and (found := [str(path) for path in pathlib.Path(temporary).rglob("*")]):
            return f"files are left: {found}"
        return ""

    for _ in range(50):
        if not (found := what_is_left()):
            break
        time.sleep(0.1)
    if found:
        for pid, _ in left_behind(mark):
            os.kill(int(pid), signal.SIGKILL)
    return Job(process.returncode, output, took, left or found)
