"""Every benchmark that README quotes, one after the other; raw figures go to build/bench/*.json."""
import datetime
import pathlib
import platform
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
print(f"{datetime.date.today()}, {platform.machine()}, Linux {platform.release()}, {platform.processor() or ''}")
for script in ("harness.py", "startup.py", "training.py", "collectives.py"):
    subprocess.run([sys.executable, here / script], check=True)
