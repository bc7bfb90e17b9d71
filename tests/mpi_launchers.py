"""How tests start ranks by each MPI's own launcher, and how they find what is left of them."""
import os
import pathlib
import re
import shutil

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
