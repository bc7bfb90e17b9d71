"""A rank that an MPI's launcher started is killed or stopped, in every phase: the others say who, in what, in time; the job
ends, not well, and leaves nothing behind.

usage: mpi_death_test.py PROGRAM openmpi|mpich|intel [HOME_OF_INTEL_MPI]
       mpi_death_test.py PROGRAM srun openmpi|mpich|intel=HOME…
Exits with 77, and says why, where the launcher is not here.

Three ways to die:
  stopped   the launcher does not notice; the others' words and the end of the job are ours
  killed    the launcher ends all others; who gets to say something says the right thing
  watched   killed, but the launcher sees only the rank's parent, as where ddlbench started it, or was told to let the others
            go on: they notice by themselves
"""
import concurrent.futures
import itertools
import re
import subprocess
import sys
import tempfile

import mpi_launchers
import slurm

PROGRAM, KIND = sys.argv[1], sys.argv[2]
RANKS = 3
# MPI starts, the timeout of 2 s and its margin, the end; on busy cores. The launcher's own end may take 5 s.
MOST_SECONDS = 25
FATES = ("stopped", "killed", "watched")
# At once: they mostly wait.
JOBS = 3


def phases():
    """(name, what the others say as they end the job where they are inside MPI; else empty)"""
    listed = subprocess.run([PROGRAM, "list"], text=True, capture_output=True, check=True).stdout
    return [tuple(line.split("\t")) for line in listed.splitlines()]


def judge(phase, inside, victim, fate, job):
    """What is wrong with it; None where nothing is."""
    others = [rank for rank in range(RANKS) if rank != victim]
    # SLURM's PMI-2 forgets the status of a step that MPI_Abort ended, now and then.
    if job.code == 0 and not (KIND == "srun" and "application called MPI_Abort" in job.output):
        return "the job ended well"
    if job.took > MOST_SECONDS:
        return f"the job took {job.took:.1f} s, expected at most {MOST_SECONDS}"
    # A stopped rank may wake for a moment as the job is ended.
    wrong = [line for line in re.findall(r"^.*is wrong.*$", job.output, re.M) if fate != "stopped" or f"rank {victim} is wrong" not in line]
    if wrong:
        return wrong[0]
    if fate != "forgiven" and re.search(r"Segmentation|SIGSEGV|a rank crashed", job.output):
        return "a rank crashed"
    if fate in ("killed", "forgiven"):
        return None
    # Each of them says so before it ends anything.
    said = {int(rank) for rank in re.findall(r"^rank (\d) is right after .*: .", job.output, re.M)}
    if inside:
        # SLURM's PMIx hears of a lost client in spite of its parent, and ends the step about when we do.
        if fate == "watched" and re.search(r"slurmstepd-.*mpi/pmix", job.output) and "CANCELLED" in job.output:
            return None
        gone = rf"rank {victim}('s process (has ended|is stopped)|: its process has ended|, which is stopped)"
        if phase == "BeforeMpiStarts":
            gone = ""  # they do not know of each other yet
        if said or re.search(rf"\[mpi\] rank ({others[0]}|{others[1]}) .*{re.escape(inside)}.*{gone}", job.output):
            return None
        return f"nobody says that it was '{inside}' and whose fault it is"
    return None if said == set(others) else f"ranks {sorted(said)} spoke, expected {others}"


def expected_of(kind, phase, fate):
    """(environment, pattern of names in /dev/shm that a library leaves)"""
    # A rank of MPICH that reads out of the memory of a killed one is ended by UCX; not where messages are copied twice.
    environment = {"UCX_TLS": "^cma"} if kind == "mpich" and fate != "stopped" else {}
    # Intel MPI's own, where its launcher kills the rank that has just made it.
    return environment, "Intel_MPI_*" if (kind, phase, fate) == ("intel", "BeforeMpiStarts", "killed") else None


def play(kind, command, environment, phase, inside, victim, fate, agents=True, forgive=False):
    extra, leaves = expected_of(kind, phase, fate)
    words = [f"phase={phase}", f"victim={victim}", f"fate={'stopped' if fate == 'stopped' else 'killed'}"]
    if fate == "watched" and agents:
        words.append("agents")
    with tempfile.TemporaryDirectory(prefix="ddlbench-death-") as folder:
        job = mpi_launchers.run([*command, PROGRAM, *words, f"scene={folder}/scene"], {**environment, **({} if forgive else extra), "TMPDIR": f"{folder}/tmp"}, limit=90, leaves=leaves)
        why = job.left or judge(phase, inside, victim, "forgiven" if forgive else fate, job)
    return f"{phase}, rank {victim} {fate}", why, job


def cases(first_victim, only=None):
    """Every phase and way to die, one victim each: of three MPIs every one begins with another, so that together they have all."""
    for turn, ((phase, inside), fate) in enumerate(itertools.product(phases(), FATES)):
        if only is None or phase in only:
            yield phase, inside, (turn + turn // RANKS + first_victim) % RANKS, fate


def tell(name, why, job):
    """How one went; 1 if badly, else 0."""
    print(f"{'WRONG' if why else 'ok'}: {name} ({job.took:.1f} s){': ' + why + chr(10) + job.output if why else ''}", flush=True)
    return 1 if why else 0


def run_all(all_cases, kind, command, environment):
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return sum(tell(*played) for played in pool.map(lambda case: play(kind, command, environment, *case), all_cases))


def by_options(kind, command, options, environment):
    """The launcher itself is told to let the others go on."""
    bad = 0
    for phase in ("BetweenCollectives", "InALarge_ring"):
        name, why, job = play(kind, [*command, *options], environment, phase, "", 1, "watched", agents=False)
        # What the job's exit status is then, is the launcher's business.
        why = None if why == "the job ended well" else why
        bad += tell(f"{name} with {' '.join(options)}", why, job)
    return bad


def under_srun(implementations):
    if why := slurm.missing():
        mpi_launchers.skip(why)
    bad = 0
    with slurm.Slurm(cpus=4) as cluster:
        for first, each in enumerate(implementations):
            implementation, _, home = each.partition("=")
            environment = {**(mpi_launchers.intel(home) if home else {}), **cluster.environment, "OMPI_MCA_mpi_yield_when_idle": "1"}
            command = ["srun", f"--mpi={'pmix' if implementation == 'openmpi' else 'pmi2'}", f"-n{RANKS}", "--overcommit", "--quiet"]
            some = ["InALarge_ring", "WhileLeaving"]
            if first == 0:
                some += ["BeforeItJoins", "WhileAGroupConnects", "InsideANativeCollective"]
            bad += run_all(cases(first, some), implementation, [*command, "--kill-on-bad-exit=1"], environment)
            bad += by_options(implementation, command, ["--no-kill", "--kill-on-bad-exit=0"], environment)
    return bad


def main():
    if KIND == "srun":
        sys.exit(1 if under_srun(sys.argv[3:]) else 0)
    command, environment = mpi_launchers.launcher(KIND, *sys.argv[3:])
    if why := mpi_launchers.missing(KIND, command, environment):
        mpi_launchers.skip(why)
    ranks = ["-n", str(RANKS)]
    bad = run_all(cases(list(mpi_launchers.PACKAGES).index(KIND)), KIND, [*command, *ranks], environment)
    # MPICH 4.0's mpiexec with -disable-auto-cleanup fails on an assertion of its own as soon as a rank dies.
    if options := {"openmpi": ["--enable-recovery"], "intel": ["-disable-auto-cleanup"]}.get(KIND):
        bad += by_options(KIND, [*command, *ranks], options, environment)
    if KIND == "mpich":
        # As users have it: what can be said then is that the job ends, not well, and that nothing is left.
        name, why, job = play(KIND, [*command, *ranks], environment, "InALarge_ring", "", 1, "watched", forgive=True)
        bad += tell(f"{name}, with what UCX does by itself", why, job)
    sys.exit(1 if bad else 0)


main()
