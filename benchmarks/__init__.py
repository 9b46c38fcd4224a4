"""What `make bench` measures. Each module prints its figures with `main(build_folder)`."""
