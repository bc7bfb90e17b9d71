#!/usr/bin/env bash
# Brings a fresh Debian 12 machine to where ddlbench builds and runs; a second call only checks a stamp.
# Needs root or sudo for Debian packages that are missing; without either it names them and exits with 1, unless they only make ddlbench faster.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=.deps
stamp=$deps/stamp
wanted=$(cat tools/packages*.txt tools/corpus.txt tools/requirements*.txt tools/setup.sh | sha256sum | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && "$deps/venv/bin/python" -c '' 2>/dev/null && "$deps/traces/bin/python" -c '' 2>/dev/null; then
  exit 0
fi

say() { printf 'setup: %s\n' "$*" >&2; }

# missing_of LIST: which of its packages are not installed.
missing_of() {
  local package status
  grep -v '^#' "$1" | while read -r package; do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null </dev/null || true)
    [ "$status" = "install ok installed" ] || printf '%s\n' "$package"
  done
}
mapfile -t missing < <(missing_of tools/packages.txt)
mapfile -t faster < <(missing_of tools/packages-faster.txt)
if [ $((${#missing[@]} + ${#faster[@]})) -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then as_root=()
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then as_root=(sudo)
  elif [ ${#missing[@]} -gt 0 ]; then
    say "these Debian packages are missing, and there is neither root nor a sudo that works without a terminal; ask for:"
    say "  apt-get install --no-install-recommends ${missing[*]} ${faster[*]}"
    exit 1
  else
    say "it would be faster with what only root may install: apt-get install --no-install-recommends ${faster[*]}"
    faster=()
  fi
  missing+=("${faster[@]}")
fi
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q >/dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
fi

mkdir -p "$deps"
# Slim images of Debian drop translations from the packages they install: those are unpacked beside, where ddlbench looks too.
locale=${DDLBENCH_LOCALE:-/usr/share/locale}
lacking=()
while read -r package catalogue; do
  [ -e "$locale/de/LC_MESSAGES/$catalogue.mo" ] || [ -e "$deps/locale/de/LC_MESSAGES/$catalogue.mo" ] || lacking+=("$package")
done < <(grep -v '^#' tools/corpus.txt)
if [ ${#lacking[@]} -gt 0 ]; then
  mapfile -t lacking < <(printf '%s\n' "${lacking[@]}" | sort -u)
  say "unpacking message catalogues, which this system left out, of: ${lacking[*]}"
  rm -rf "$deps/unpack"
  mkdir -p "$deps/unpack/root/usr/share/locale" "$deps/locale"
  if (cd "$deps/unpack" && apt-get download -q "${lacking[@]}" >/dev/null && for file in *.deb; do dpkg-deb -x "$file" root || exit 1; done); then
    cp -r "$deps/unpack/root/usr/share/locale/." "$deps/locale"
  else
    say "they cannot be had: translation and language will be there with --synthetic only (another try: rm $stamp)"
  fi
  rm -rf "$deps/unpack"
fi

# environment NAME: a Python environment in .deps/NAME, made where it is not there.
environment() {
  "$deps/$1/bin/python" -c '' 2>/dev/null && return
  say "making a Python environment in $deps/$1"
  rm -rf "${deps:?}/$1"
  # Debian's own interpreter where it is there: python3 on the PATH may be a version manager's shim.
  local python=/usr/bin/python3
  [ -x "$python" ] || python=python3
  "$python" -m venv "$deps/$1"
}
pip() { "$deps/$1/bin/python" -m pip install -q --disable-pip-version-check "${@:2}"; }
environment venv
say "fetching Python wheels: $(grep -hv '^#' tools/requirements.txt tools/requirements-alone.txt | tr '\n' ' ')"
pip venv -r tools/requirements.txt
pip venv --no-deps -r tools/requirements-alone.txt
# A LibTorch with CUDA has the runtime's wheel as a neighbour, but not all headers of it: what builds the nccl transport and CUDA graphs.
if compgen -G "$deps/venv/lib/python3*/site-packages/torch/lib/libtorch_cuda.so" >/dev/null; then
  runtime=$("$deps/venv/bin/python" -c 'import importlib.metadata as m; print(".".join(m.version("nvidia-cuda-runtime").split(".")[:2]))' 2>/dev/null || true)
  say "fetching headers for CUDA $runtime"
  pip venv --no-deps "nvidia-cuda-crt==$runtime.*" "nvidia-cuda-cccl==$runtime.*" || say "they cannot be had: there will be no nccl and no CUDA graphs unless a CUDA toolkit is here (another try: rm $stamp)"
fi
# Apart, since what they need changes with every version, and LibTorch's environment must not.
environment traces
say "fetching Python wheels that tests read traces with: $(grep -hv '^#' tools/requirements-traces*.txt | tr '\n' ' ')"
pip traces -r tools/requirements-traces.txt
pip traces --no-deps -r tools/requirements-traces-alone.txt
echo "$wanted" > "$stamp"
say "done"
