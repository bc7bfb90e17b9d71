#!/bin/sh
# Runs tests that were built with sanitizers, one after the other: tools/sanitized.sh BUILD TEST...
# All run, then it fails where one did. Their words are in BUILD/TEST.log.
# Left out: LargeMessage, which wants 9 GiB, and with a sanitizer's shadow of them more than machines have. Under
# ThreadSanitizer also the two that cross every size, type and group: they took more than ten minutes, and the threads of
# one group do the same as those of another.
set -u
build=$1
shift
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=0:second_deadlock_stack=1
left_out="*LargeMessage*"
case $build in
  *tsan) left_out="$left_out:*DoesEverySizeOnEveryGroup*:*DoesEveryTypeAndOperation*" ;;
esac
failed=0
for test in "$@"; do
  start=$(date +%s)
  if "$build/bin/$test" --gtest_brief=1 --gtest_filter="-$left_out" >"$build/$test.log" 2>&1; then verdict=passed; else verdict=FAILED failed=1; fi
  echo "$test: $verdict in $(($(date +%s) - start)) s$(grep -c 'SKIPPED' "$build/$test.log" | sed 's/^0$//; s/.\+/, & skipped/')"
  [ "$verdict" = passed ] || tail -n 40 "$build/$test.log"
done
exit $failed
