# Run the test binaries of Go's standard library, each in its own directory as `go test` does; -test.run as $1.
tar -xzf go-tests.tar.gz
for binary in src/*/*.test src/*/*/*.test; do
  directory=${binary%/*}
  echo "=== PACKAGE ${directory#src/}"
  (cd "$directory" && "./${binary##*/}" -test.v -test.short -test.timeout 5m ${1:+-test.run "$1"} 2>&1)
  echo "=== STATUS $?"
done
exit 0
