#!/bin/sh
# Runs every fuzzer for so many seconds: tools/fuzz.sh BUILD SECONDS
# Inputs that taught it something are kept in BUILD/corpus; one that breaks something is left in BUILD, and ends this.
set -eu
build=$1 seconds=$2
"$build/bin/wire_seeds" "$build/seeds"
for fuzzer in wire_fuzz operation_fuzz text_fuzz; do
  echo "== $fuzzer, $seconds s"
  mkdir -p "$build/corpus/$fuzzer"
  if ! "$build/bin/$fuzzer" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/$fuzzer-" "$build/corpus/$fuzzer" "$build/seeds" >"$build/$fuzzer.log" 2>&1; then
    tail -n 60 "$build/$fuzzer.log"
    exit 1
  fi
  grep -E '^(Done|stat::)|INITED' "$build/$fuzzer.log"
done
