"""Every benchmark that README quotes, one after the other; raw figures go to build/bench/*.json."""
import datetime
import os
import pathlib
import platform
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
print(f"{datetime.date.today()}, {platform.machine()}, Linux {platform.release()}, {platform.processor() or ''}")
SCRIPTS = [["harness.py"], ["startup.py"], ["training.py"], ["strategies.py"], ["networks.py"], ["collectives.py"], ["collectives.py", "4", "4"], ["collectives.py", "4", "8"], ["fabric.py"]]
for script, *arguments in SCRIPTS:
    if script == "fabric.py" and os.geteuid() != 0:
        print("fabric.py: left out: making network namespaces takes root")
        continue
    subprocess.run([sys.executable, here / script, *arguments], check=True)
