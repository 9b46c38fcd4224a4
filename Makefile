# The front door; every target is safe to run again.
.PHONY: build test
build:
	cmake --preset release
	cmake --build --preset release
test: build
	ctest --test-dir build/release --output-on-failure
