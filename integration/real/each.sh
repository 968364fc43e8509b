# Run Node's tests of worker_threads, child_process and fs, or those named, four at a time, and print a line for each:
# outcome, name, and the end of what it said, with tabs between.
tar -xzf node-tests.tar.gz
mkdir -p logs
if [ $# = 0 ]; then
  set -- $(ls test/parallel | grep -E '^test-(worker|child-process|fs)[-.].*\.m?js$')
fi
printf '%s\n' "$@" | xargs -P 4 -n 1 sh -c '
  flags=$(sed -n "s,^// Flags: ,,p" "test/parallel/$1" | head -n 1)
  TEST_THREAD_ID=$$ timeout -k 5 120 node $flags "test/parallel/$1" >"logs/$1" 2>&1 </dev/null
  code=$?
  outcome=passed
  if [ $code != 0 ]; then outcome=failed; elif grep -q "^1..0 # Skipped" "logs/$1"; then outcome=skipped; fi
  said=
  [ $outcome = passed ] || said="status $code: $(tail -c 600 "logs/$1" | tr "\n\t" "  ")"
  printf "%s\t%s\t%s\n" $outcome "$1" "$said"' each
exit 0
