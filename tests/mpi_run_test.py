"""The binary with ranks that a launcher started: plainly, where ddlbench starts the MPI's launcher itself, and under that launcher;
under srun, in a SLURM that the test makes; and Open MPI across test hosts. What is trained and measured, and what happens where a
rank dies or somebody interrupts.

usage: mpi_run_test.py BINARY openmpi|mpich|intel [HOME_OF_INTEL_MPI]
       mpi_run_test.py BINARY srun openmpi|mpich|intel=HOME…
       mpi_run_test.py BINARY hosts
Exits with 77, and says why, where the launcher is not here.
"""
import atexit
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import mpi_launchers
import slurm

BINARY, KIND = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
NAME, VALUE = "DDLBENCH_TEST", uuid.uuid4().hex
QUICK = ["--synthetic", "--train-samples", "640", "--test-samples", "200", "--model", "lenet", "--batch", "64"]
LONG = [*QUICK, "--epochs", "100000", "--no-evaluate", "--trace", "off"]
# One collective of ours, so that sums are taken in one order, whatever carries them.
SAME = [*QUICK, "--steps", "8", "--collective", "ring", "--workers", "2"]
PROBE = ["probe", "comm", "--ranks", "2", "--collective", "all-reduce,barrier", "--algorithm", "ring,native,dissemination", "--budget", "10ms",
         "--machine", "none", "--json"]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="ddlbench-mpi-run-"))


@atexit.register
def clean_up():
    """Of a test that failed half way, too."""
    for process, _ in mpi_launchers.left_behind(f"{NAME}={VALUE}"):
        os.kill(int(process), signal.SIGKILL)
    shutil.rmtree(FOLDER, ignore_errors=True)


def expect(holds, what, *seen):
    if not holds:
        sys.exit("\n".join([f"not so: {what}", *map(str, seen)]))
    print(f"ok: {what}", flush=True)


def traces():
    """What a run could leave but processes, with which sockets go: files, segments, and network namespaces of makers that are gone. Not what others on this machine have made, and use."""
    found = {str(path) for path in pathlib.Path("/dev/shm").glob("*") if not mpi_launchers.in_use(path.name)}
    listening = pathlib.Path("/proc/net/unix").read_text()
    found |= {str(path) for path in pathlib.Path(tempfile.gettempdir()).glob("ddlbench-??????") if f"{path}/socket" not in listening}
    return found | {str(path) for path in pathlib.Path("/run/netns").glob("ddlbench-*") if not pathlib.Path("/proc", path.name.split("-")[1]).exists()}


BEFORE = traces()


def check_nothing_left(what):
    for _ in range(100):
        left = mpi_launchers.left_behind(f"{NAME}={VALUE}") or sorted(traces() - BEFORE)
        if not left:
            return
        time.sleep(0.1)
    sys.exit(f"{what}: left behind: {left}")


def start(words, environment, launcher=()):
    return subprocess.Popen([*launcher, BINARY, *words], env={**os.environ, "DDLBENCH_MACHINE": str(FOLDER / "machine.json"), **environment, NAME: VALUE}, cwd=FOLDER, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process, limit=120):
    out, err = process.communicate(timeout=limit)
    check_nothing_left(process.args)
    return process.returncode, out, err


def run(words, environment, launcher=(), limit=120):
    return finish(start(words, environment, launcher), limit)


def record_of(words, environment, launcher=()):
    code, out, err = run(["run", *words, "--store", "none", "--json"], environment, launcher)
    if code != 0:
        sys.exit(f"{launcher} {words}: {code}\n{out}\n{err}")
    return json.loads(out)


def workers_of(ranks):
    """Process of each rank's worker: an agent's child, told by the rank in its environment."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = dict(each.split("=", 1) for each in (folder / "environ").read_bytes().decode(errors="replace").split("\0") if "=" in each)
            parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if variables.get(NAME) != VALUE or BINARY not in (folder / "cmdline").read_bytes().decode(errors="replace"):
                continue
            rank = next((int(variables[name]) for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK") if name in variables), None)
            # The deepest of a rank's processes is its worker.
            children = (folder / "task" / folder.name / "children").read_text().split()
            if rank is not None and not children and parent != "1" and BINARY in pathlib.Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace"):
                found[rank] = int(folder.name)
        except (OSError, StopIteration):
            pass
    return found if len(found) == ranks else {}


def wait_for_steps(process, ranks=2):
    """Until it trains; its workers."""
    line = ""
    os.set_blocking(process.stderr.fileno(), False)
    for _ in range(600):
        try:
            line += os.read(process.stderr.fileno(), 65536).decode(errors="replace")
        except BlockingIOError:
            pass
        workers = workers_of(ranks)
        if re.search(r"step [1-9]", line) and workers:
            os.set_blocking(process.stderr.fileno(), True)
            return workers
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{process.args}: it does not train: {process.poll()} {line} {workers_of(ranks)}")


def shown(store):
    """The newest run of a store."""
    code, out, err = run(["export", "latest", "--store", str(store), "--format", "json"], {})
    return json.loads(out) if code == 0 else sys.exit(f"export: {err}")


def same_training(name, transports, environment, launcher=()):
    """Losses and parameters as tcp's without any launcher, to the bit."""
    plain = record_of([*SAME, "--transport", "tcp"], {})
    for transport in transports:
        record = record_of([*SAME, "--transport", transport], environment, launcher)
        expect(record["state"] == "ok" and record["loss"]["steps"] == plain["loss"]["steps"] and record["parameters_digest"] == plain["parameters_digest"]
               and len({rank["pid"] for rank in record["ranks"]}) == 2 and all(rank["pid"] > 0 for rank in record["ranks"]),
               f"{name}: two workers over {transport} train as over plain tcp, bit for bit", record)


def check_probe(name, transports, environment, launcher=()):
    code, out, err = run([*PROBE, "--sizes", "1KiB,64KiB", "--transport", transports], environment, launcher)
    rows = json.loads(out)["results"] if code == 0 else []
    expect(code == 0 and len(rows) >= 5 and all(row["time_us"]["median"] > 0 for row in rows) and any(row["algorithm"] == "native" for row in rows),
           f"{name}: probe comm --transport {transports}: {len(rows)} rows", code, out, err)


def check_predicted(name, transport, environment):
    """By a profile in which the library's own all-reduce was measured, and was fastest: runs follow it, and so do predictions."""
    environment = {**environment, "DDLBENCH_MACHINE": str(FOLDER / "predicted.json")}
    job = ["--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--batch", "16", "--workers", "2", "--transport", transport]
    for words in (["probe", "comm", "--transport", transport, "--ranks", "2", "--collective", "all-reduce", "--algorithm", "native", "--sizes", "1KiB,64KiB,1MiB", "--budget", "10ms"],
                  ["probe", "compute", "--model", "lenet", "--dataset", "fashion-mnist", "--batch", "8,16", "--budget", "50ms"]):
        code, out, err = run([*words, "--json"], environment)
        expect(code == 0, f"{name}: {' '.join(words[:2])} for a prediction", code, out[-500:], err)
    point = json.loads(run(["predict", *job, "--json"], environment)[1])["points"][0]
    expect(point["step_ms"] is not None and point["ledger_ms"]["communication"] + point["ledger_ms"]["wait"] > 0 and point["links"]["busiest"]["busiest_bytes"] > 0, f"{name}: predict prices the library's own all-reduce", point)
    record = record_of([*job, "--train-samples", "320", "--no-evaluate", "--steps", "20"], environment)
    expect(record["prediction"]["step_ms"] is not None, f"{name}: a run predicts itself", record["prediction"]["reason"])


def check_kill(name, transport, environment, launcher=(), more=()):
    store = FOLDER / f"{uuid.uuid4().hex}.db"
    process = start(["run", *LONG, "--workers", "2", "--transport", transport, *more, "--store", str(store)], environment, launcher)
    victim = wait_for_steps(process)[1]
    begin = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    code, out, err = finish(process)
    record = shown(store)
    expect(code != 0 and f"rank 1 (process {victim}) ended by signal 9 (Killed) at step " in err and record["state"] == "failed"
           and f"rank 1 (process {victim}) ended by signal 9 (Killed)" in record["reason"] and record["samples"]["steps"] > 0 and time.monotonic() - begin < 20,
           f"{name}: a killed worker is named, the run is `failed`, nothing is left ({time.monotonic() - begin:.1f} s)", code, err, record["state"], record["reason"])


def check_interrupt(name, transport, environment, launcher=(), number=signal.SIGINT, codes=(130,)):
    store = FOLDER / f"{uuid.uuid4().hex}.db"
    process = start(["run", *LONG, "--workers", "2", "--transport", transport, "--store", str(store)], environment, launcher)
    wait_for_steps(process)
    process.send_signal(number)
    code, out, err = finish(process)
    record = shown(store)
    expect((code in codes or not codes) and record["state"] == "interrupted" and record["samples"]["steps"] > 0 and record["parameters_digest"] is not None,
           f"{name}: {number.name} leaves a whole record (exit code {code})", code, err, record["state"], record["reason"])


def check_plain(kind, environment):
    transport = f"mpi[implementation={kind}]"
    name = f"{kind}, started by ddlbench"
    same_training(name, [transport], environment)
    record = record_of([*SAME, "--transport", transport], environment)
    expect(any(f"version of {kind}: " in message for message in record["messages"]), f"{name}: its version is in the record", record["messages"])
    native = record_of([*QUICK, "--steps", "4", "--workers", "2", "--transport", transport, "--collective", "native"], environment)
    expect(native["state"] == "ok", f"{name}: with its own all-reduce")
    check_probe(name, f"{transport},tcp", environment)
    check_predicted(name, transport, environment)
    check_kill(name, transport, environment)
    check_interrupt(name, transport, environment)
    store = FOLDER / "study.db"
    study = FOLDER / "study.yaml"
    study.write_text(f"study: both\nbase: {{model: lenet, synthetic: true, train_samples: 640, test_samples: 200, steps: 3, workers: 2}}\n"
                     f"matrix:\n  - [{{transport: tcp}}, {{transport: '{transport}'}}]\n")
    code, out, err = run(["sweep", str(study), "--store", str(store), "--json"], environment)
    expect(code == 0 and [run["state"] for run in json.loads(out)["runs"]] == ["ok", "ok"], f"{name}: in a sweep", code, out, err)
    # A coordinator that is killed takes all with it.
    process = start(["run", *LONG, "--workers", "2", "--transport", transport, "--store", "none"], environment)
    wait_for_steps(process)
    process.kill()
    finish(process)
    expect(True, f"{name}: nothing outlives a killed coordinator")
    if kind != "intel":  # whose home is known to the build
        code, out, err = run(["run", *QUICK, "--steps", "1", "--workers", "2", "--transport", transport, "--store", "none"], {**environment, "PATH": "/nowhere"})
        expect(code == 6 and err.count("error:") == 1 and "the launcher of" in err and mpi_launchers.PACKAGES[kind] in err, f"{name}: a missing launcher is one line", code, err)
        fake = FOLDER / "libraries"
        fake.mkdir()
        for library in ("libmpi.so.40", "libmpich.so.12"):
            (fake / library).write_text("no library")
        code, out, err = run(["run", *QUICK, "--steps", "1", "--workers", "2", "--transport", transport, "--store", "none"],
                             {**environment, "LD_LIBRARY_PATH": str(fake)})
        expect(code == 6 and err.count("error:") == 1 and "cannot be loaded" in err, f"{name}: a library that cannot be loaded is one line", code, err)


def check_under(name, environment, launcher, transport="mpi"):
    """`launcher`: with two ranks."""
    same_training(name, [transport, "tcp", "shm"], environment, launcher)
    check_probe(name, f"{transport},tcp,shm", environment, launcher)
    code, out, err = run(["run", *QUICK, "--steps", "1", "--workers", "3", "--transport", transport, "--store", "none"], environment, launcher)
    expect(code != 0 and err.count("as many workers as the launcher started processes; got 3, expected 2") == 1 and err.count("ddlbench: error:") == 1,
           f"{name}: other workers than ranks are refused once (exit code {code})", code, out, err)
    code, out, err = run(["run", "--stesp", "1"], environment, launcher)
    expect(code != 0 and err.count("--steps") == 1 and err.count("ddlbench: error:") == 1, f"{name}: a wrong flag is told once (exit code {code})", code, out, err)
    code, out, err = run(["run", "--help"], environment, launcher)
    expect(code == 0 and out.count("Run one experiment and keep its record.") == 1, f"{name}: help is printed once", code, out, err)
    store = FOLDER / f"{uuid.uuid4().hex}.db"
    study = FOLDER / "under.yaml"
    study.write_text(f"study: under\nbase: {{model: lenet, synthetic: true, train_samples: 640, test_samples: 200, steps: 3, workers: 2}}\n"
                     f"matrix:\n  - [{{transport: tcp}}, {{transport: '{transport}'}}, {{transport: shm}}]\n")
    code, out, err = run(["sweep", str(study), "--store", str(store), "--json"], environment, launcher)
    expect(code == 0 and [run["state"] for run in json.loads(out)["runs"]] == ["ok"] * 3, f"{name}: a sweep of three runs by the same ranks", code, out, err)
    check_kill(name, transport, environment, launcher)


def check_launcher(kind, environment, command):
    name = f"under {kind}'s launcher"
    launcher = [*command, "-n", "2"]
    check_under(name, environment, launcher, f"mpi[implementation={kind}]" if kind == "intel" else "mpi")
    # What a launcher exits with after a signal is its own affair.
    check_interrupt(name, "mpi", environment, launcher, signal.SIGINT, ())
    check_interrupt(name, "tcp", environment, launcher, signal.SIGTERM, ())


def under_srun(implementations):
    if why := slurm.missing():
        mpi_launchers.skip(why)
    with slurm.Slurm(cpus=4) as cluster:
        for each in implementations:
            implementation, _, home = each.partition("=")
            kind = "pmix" if implementation == "openmpi" else "pmi2"
            environment = {**(mpi_launchers.intel(home) if home else {}), **cluster.environment, "OMPI_MCA_mpi_yield_when_idle": "1"}
            global BEFORE
            BEFORE = traces()
            check_under(f"{implementation} under srun --mpi={kind}", environment, ["srun", f"--mpi={kind}", "-n2", "--overcommit", "--quiet"])
            # A task alone is a place to start a launcher from, as a shell of `srun --pty` is.
            same_training(f"{implementation}, started by ddlbench in a task of srun --mpi={kind}", [f"mpi[implementation={implementation}]"], environment,
                          ["srun", f"--mpi={kind}", "-n1", "--quiet"])
        code, out, err = run(["run", *QUICK, "--steps", "1", "--workers", "2", "--store", "none"], environment, ["srun", "--mpi=none", "-n2", "--overcommit", "--quiet"])
        expect(code != 0 and err.count("expected srun --mpi=pmix") == 1, "srun --mpi=none is refused once", code, out, err)


def no_hosts():
    """Why there can be no test hosts here; None where there can."""
    if os.getuid() != 0:
        return "network namespaces need root"
    code, out, err = run([*PROBE, "--sizes", "1KiB", "--transport", "tcp", "--fabric", "hosts=2,bandwidth=1Gbps"], {})
    # Whatever else goes wrong is none of this machine's business.
    expect(code == 0 or re.search(r"\[(command|fabric|namespace)\]", err), "a test network is made, or it is said why not", code, out, err)
    return None if code == 0 else f"no test network can be made: {err.strip()}"


class Hosts:
    """Two network namespaces, joined by a bridge in a third."""
    NETWORK = "10.78.0.0/24"
    ADDRESSES = ["10.78.0.1", "10.78.0.2"]

    def __enter__(self):
        # With this process and when it started, as ddlbench names its own: those of makers that are gone any other ddlbench on this machine sweeps away.
        started = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
        self.names = [f"ddlbench-{os.getpid()}-{started}-test-{name}" for name in ("hub", "host0", "host1")]
        try:
            self.make()
        except BaseException:
            self.__exit__()  # half made, nobody else would
            raise
        return self

    def make(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.inside(name, "ip link set lo up")
        self.inside(self.names[0], "ip link add br0 type bridge", "ip addr add 10.78.0.254/24 dev br0", "ip link set br0 up")
        for number, name in enumerate(self.names[1:]):
            self.inside(self.names[0], f"ip link add port{number} type veth peer name eth0 netns {name}", f"ip link set port{number} master br0 up")
            self.inside(name, f"ip addr add {self.ADDRESSES[number]}/24 dev eth0", "ip link set eth0 up")

    @staticmethod
    def inside(name, *commands):
        for command in commands:
            subprocess.run(["nsenter", f"--net=/run/netns/{name}", *command.split()], check=True)

    def launcher(self):
        shell = f"{BINARY} on-host " + ",".join(f"{address}={name}" for address, name in zip(self.ADDRESSES, self.names[1:]))
        settings = {"plm_rsh_agent": shell, "btl": "tcp,self", "pml": "ob1", "btl_tcp_if_include": self.NETWORK, "oob_tcp_if_include": self.NETWORK,
                    "mpi_yield_when_idle": "1"}
        return ["nsenter", f"--net=/run/netns/{self.names[0]}", "mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-n", "2", "--host",
                ",".join(f"{address}:1" for address in self.ADDRESSES), *(word for each in settings.items() for word in ("--mca", *each))]

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name])


def across_hosts():
    command, environment = mpi_launchers.launcher("openmpi")
    if why := mpi_launchers.missing("openmpi", command, environment) or no_hosts():
        mpi_launchers.skip(why)
    transport = "mpi[implementation=openmpi]"
    plain = record_of([*SAME, "--transport", "tcp"], {})
    for fabric in ("hosts=2", "hosts=2,bandwidth=100Mbps"):
        record = record_of([*SAME, "--transport", transport, "--fabric", fabric], {})
        expect(record["state"] == "ok" and record["parameters_digest"] == plain["parameters_digest"] and record["loss"]["steps"] == plain["loss"]["steps"],
               f"Open MPI trains across {fabric} as tcp does on one host, bit for bit", record)
    record = record_of([*QUICK, "--steps", "4", "--workers", "3", "--transport", transport, "--fabric", "hosts=2", "--collective", "hierarchical"], {})
    expect(record["state"] == "ok", "three workers on two hosts, by an all-reduce that knows them", record)
    for attempt in range(3):
        code, out, err = run([*PROBE, "--transport", transport, "--sizes", "4MiB", "--fabric", "hosts=2,bandwidth=1Gbps"], {})
        # One way: both ways at once Open MPI's tcp comes to half of it on such a wire.
        rates = [8e-3 * point["bytes"] / point["one_way_us"] for point in json.loads(out)["limits"][0]["points"] if point["bytes"]] if code == 0 else []
        # Cores that others use too make it slower, now and then; never faster.
        if code != 0 or all(rate > 0.8 for rate in rates):
            break
    expect(code == 0 and rates and all(0.8 < rate < 1.05 for rate in rates), f"probe comm of Open MPI has a wire of 1 Gbit/s: {rates}", code, err)
    code, out, err = run(["run", *QUICK, "--steps", "1", "--workers", "2", "--transport", "mpi[implementation=mpich]", "--fabric", "hosts=2", "--store", "none"], {})
    # One that this build lacks is refused for that.
    said = {each["check"]: each["says"] for each in json.loads(run(["doctor", "--json"], {})[1])["checks"]}["mpi: mpich"]
    expect(code == 6 and ("mpich is not in this build" if "no headers" in said else "expected mpi[implementation=openmpi]") in err, "another MPI is refused there", code, err, said)
    check_kill("Open MPI across hosts", transport, {}, (), ["--fabric", "hosts=2"])
    with Hosts() as hosts:
        same_training("under Open MPI's mpirun across hosts", ["mpi", "tcp"], environment, hosts.launcher())
        record = record_of([*SAME, "--transport", "tcp"], environment, hosts.launcher())
        told = record["prediction"]
        expect(told is not None and told.get("step_ms") is None and "ranks ran on 2 hosts" in told["reason"], "a step over several measured hosts is not predicted, and the record says why", told)
        check_kill("under mpirun across hosts", "tcp", environment, hosts.launcher())


def main():
    if KIND == "srun":
        under_srun(sys.argv[3:])
        return
    if KIND == "hosts":
        across_hosts()
        return
    command, environment = mpi_launchers.launcher(KIND, *sys.argv[3:])
    if why := mpi_launchers.missing(KIND, command, environment):
        mpi_launchers.skip(why)
    # As a user has it: ddlbench finds what an MPI needs.
    check_plain(KIND, {"I_MPI_ROOT": sys.argv[3]} if KIND == "intel" else {})
    check_launcher(KIND, environment, command)


main()
