"""A SLURM of one host in a folder of its own, for a test: munged, slurmctld and slurmd, ended and removed with it."""
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time


def missing():
    """Why there cannot be one here; None where there can."""
    for program, package in (("munged", "munge"), ("slurmctld", "slurmctld"), ("slurmd", "slurmd"), ("srun", "slurm-client")):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            return f"{program} is missing (Debian's {package}; slurm-wlm and munge bring all)"
    if os.getuid() != 0:
        return "slurmd needs root"
    return None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Slurm:
    def __init__(self, cpus):
        self.cpus = cpus
        self.processes = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddlbench-slurm-"))
        self.folder.chmod(0o755)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        folder, host = self.folder, socket.gethostname().split(".")[0]
        path = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        munge = folder / "munge"
        munge.mkdir(mode=0o755)
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        user = pwd.getpwuid(0)
        try:
            user = pwd.getpwnam("munge")
        except KeyError:
            pass
        for each in (munge, key):
            os.chown(each, user.pw_uid, user.pw_gid)
        self.spawn(["munged", "--foreground", f"--key-file={key}", f"--socket={munge / 'socket'}", f"--pid-file={munge / 'pid'}",
                    f"--log-file={munge / 'log'}", f"--seed-file={munge / 'seed'}"], path, user=user)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        memory = max(512, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 // 2)
        configuration = folder / "slurm.conf"
        configuration.write_text(f"""ClusterName=ddlbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge / 'socket'}
CryptoType=crypto/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmix
ReturnToService=2
KillWait=2
StateSaveLocation={folder / 'state'}
SlurmdSpoolDir={folder / 'spool'}
SlurmctldPidFile={folder / 'slurmctld.pid'}
SlurmdPidFile={folder / 'slurmd.pid'}
SlurmctldLogFile={folder / 'slurmctld.log'}
SlurmdLogFile={folder / 'slurmd.log'}
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={self.cpus} RealMemory={memory} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
""")
        self.environment = {"SLURM_CONF": str(configuration)}
        for daemon in ("slurmctld", "slurmd"):
            self.spawn([daemon, "-D", "-f", str(configuration)], {**path, **self.environment})
        for _ in range(200):
            states = subprocess.run(["sinfo", "-h", "-o", "%t"], env={**os.environ, **self.environment}, capture_output=True, text=True)
            if states.stdout.strip() == "idle":
                return
            time.sleep(0.1)
        logs = "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in sorted(folder.glob("*.log")) + [munge / "log"] if log.exists())
        raise RuntimeError(f"SLURM's node did not become idle: {states.stdout} {states.stderr}\n{logs}")

    def spawn(self, command, environment, user=None):
        extra = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user and user.pw_uid != os.getuid() else {}
        log = open(self.folder / f"{command[0]}.out", "w")
        self.processes.append(subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                               start_new_session=True, **extra))

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
