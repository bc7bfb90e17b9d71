"""All-reduce against what users have: MPI_Allreduce of Open MPI, Intel MPI and MPICH, and torch's Gloo.

fp32, sum, in place; every round runs all arms in turn (A B … B A). Arms: the limit kernel (collective_bench), ours over shm
with memory born in the segment and outside of it, ours over tcp, each MPI that is installed, Gloo.
An arm that takes more than a minute (PATIENCE, in seconds) is ended; what it had not measured by then is shown as "-".
  Open MPI, MPICH: Debian's libopenmpi-dev openmpi-bin libmpich-dev mpich. Intel MPI: PyPI's impi-rt and impi-devel, unpacked
  or installed under the folder that IMPI_ROOT names.

usage: collectives.py [ROUNDS [RANKS [BYTES…]]]
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import BINARY, ROOT, interval_words, ratio, save
import statistics

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
RANKS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
SIZES = [int(size) for size in sys.argv[3:]] or [1 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20]
PATIENCE = float(os.environ.get("PATIENCE", 60))  # s; MPICH, which has no setting to yield, takes longer where ranks outnumber cores
BENCH = BINARY.parent / "collective_bench"
CODE = ROOT / "bench" / "peers"
MORE_RANKS_THAN_CORES = RANKS > len(os.sched_getaffinity(0))
folder = tempfile.TemporaryDirectory()


def run_for(command, environment, limit):
    """What it printed, its exit status (None where it was ended after so many seconds), what it said on standard error."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        # From a terminal-less session of its own, so that its ranks end with it.
        process = subprocess.Popen([*map(str, command), *map(str, SIZES)], stdout=out, stderr=err, env={**os.environ, **environment},
                                   start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            # The launcher first, by the signal that it passes on.
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(1)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            status = None
        out.seek(0), err.seek(0)
        return out.read(), status, err.read()


def median_of(values):
    return f"{statistics.median(values):.2f}" if values else "-"


def ours(**options):
    return [BENCH, f"ranks={RANKS}", *(f"{key}={value}" for key, value in options.items())], {}


def mpi(name, compiler, launcher, environment, libraries=()):
    """Builds the program; the arm, or None with a line that says what is missing."""
    program = pathlib.Path(folder.name) / f"allreduce-{name.replace(' ', '-')}"
    if not shutil.which(compiler[0]) or not shutil.which(launcher[0]):
        print(f"  ({name}: not here: {compiler[0]} or {launcher[0]} is missing)", file=sys.stderr)
        return None
    subprocess.run([*compiler, "-O2", CODE / "allreduce_mpi.c", *libraries, "-o", program], check=True, env={**os.environ, **environment})
    return [*launcher, "-n", str(RANKS), program], environment


def intel():
    root = os.environ.get("IMPI_ROOT", "")
    header = next(pathlib.Path(root).rglob("mpi.h"), None) if root else None
    library = next(pathlib.Path(root).rglob("libmpi.so.12"), None) if root else None
    launcher = next(pathlib.Path(root).rglob("mpiexec.hydra"), None) if root else None
    if not (header and library and launcher):
        print("  (Intel MPI: not here: IMPI_ROOT names no folder with mpi.h, libmpi.so.12 and mpiexec.hydra)", file=sys.stderr)
        return None
    home = launcher.parent.parent
    for path in (launcher, *launcher.parent.iterdir()):
        path.chmod(0o755)
    environment = {"I_MPI_ROOT": str(home), "LD_LIBRARY_PATH": f"{library.parent}:{home / 'lib'}:{home / 'opt/mpi/libfabric/lib'}",
                   "FI_PROVIDER_PATH": str(next(pathlib.Path(root).rglob("libfabric/lib/prov"), home)), "I_MPI_FABRICS": "shm",
                   "PATH": f"{launcher.parent}:{os.environ['PATH']}"}
    if MORE_RANKS_THAN_CORES:
        environment |= {"I_MPI_WAIT_MODE": "1", "I_MPI_THREAD_YIELD": "3"}
    return mpi("Intel MPI", ["gcc", f"-I{header.parent}"], [str(launcher)], environment,
               [str(library), f"-Wl,-rpath,{library.parent}"])


os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
open_mpi = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
if MORE_RANKS_THAN_CORES:
    open_mpi += ["--mca", "mpi_yield_when_idle", "1"]
arms = {
    "shm": ours(transport="shm"), "shm, outside memory": ours(transport="shm", memory="outside"), "tcp": ours(transport="tcp"),
    "Open MPI": mpi("Open MPI", ["mpicc.openmpi"], open_mpi, {}),
    "MPICH": mpi("MPICH", ["mpicc.mpich"], ["mpiexec.mpich"], {}), "Intel MPI": intel(),
    "Gloo": ([sys.executable, CODE / "allreduce_gloo.py", str(RANKS)], {"GLOO_SOCKET_IFNAME": "lo"})}
if RANKS == 2:
    arms["limit"] = ours(transport="limit")
arms = {name: arm for name, arm in arms.items() if arm}

results = {name: {size: [] for size in SIZES} for name in arms}
for number in range(ROUNDS):
    for name in list(arms) if number % 2 == 0 else list(reversed(arms)):
        command, environment = arms[name]
        printed, status, error = run_for(command, environment, PATIENCE)
        if status not in (0, None):
            sys.exit(f"{name}: ended with {status}: {error}")
        for line in printed.splitlines():
            fields = line.split(",")
            if len(fields) not in (2, 8) or not fields[-1].replace(".", "").isdigit():
                continue  # a launcher's words about ranks that were ended
            size, value = (int(fields[4]), float(fields[5])) if len(fields) > 2 else (int(fields[0]), float(fields[1]))
            results[name][size].append(value)
        print(f"  round {number + 1}/{ROUNDS} {name}: {[round(v[-1], 2) for v in results[name].values() if v]}"
              f"{f' and no more within {PATIENCE:g} s' if status is None else ''}", file=sys.stderr)

print(f"all-reduce of {RANKS} ranks, fp32, microseconds (medians of {ROUNDS} interleaved rounds)")
print(f"{'bytes':>10}" + "".join(f"{name:>22}" for name in arms))
for size in SIZES:
    print(f"{size:>10}" + "".join(f"{median_of(results[name][size]):>22}" for name in arms))
print(f"times as long as shm in its own memory, with {interval_words(ROUNDS)}")
for size in SIZES:
    cells = []
    for name in arms:
        if not results[name][size]:
            cells.append(f"{'-':>22}")
            continue
        middle, low, high = ratio(results[name][size], results["shm"][size])
        cells.append(f"{f'{middle:.2f} [{low:.2f} to {high:.2f}]':>22}")
    print(f"{size:>10}" + "".join(cells))
save(f"collectives_{RANKS}", {name: {str(size): values for size, values in by_size.items()} for name, by_size in results.items()})
