/*
 * tests/fuzz/replay.c - a main() for fuzz targets without libFuzzer: runs each
 * file named, and each file of a directory named, through the target once.
 *
 *     TARGET FILE|DIR...
 *
 * An input that breaks something ends the process as it does under libFuzzer;
 * the last line says which one it was.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#pragma weak LLVMFuzzerInitialize

#define INPUT_SECONDS 30

static const char *current = "none: while it prepared itself";
static size_t inputs;

/* Async-signal-safe. */
static void name_input(int number)
{
	static const char text[] = "\nreplay: input ";

	(void)!write(2, text, sizeof text - 1);
	(void)!write(2, current, strlen(current));
	(void)!write(2, "\n", 1);
	signal(number, SIG_DFL);
	raise(number);
}

static bool read_file(const char *path, struct buf *out)
{
	FILE *in = fopen(path, "re");
	size_t n;

	if (!in) return false;
	do {
		n = fread(buf_extend(out, 4096), 1, 4096, in);
		out->n -= 4096 - n;
	} while (n > 0);
	n = (size_t)ferror(in);
	fclose(in);
	return n == 0;
}

static bool run_file(const char *path)
{
	struct buf bytes = {0};
	struct slice s;

	if (!read_file(path, &bytes)) {
		perror(path);
		buf_finish(&bytes);
		return false;
	}
	current = path;
	inputs++;
	s = alone((struct slice){bytes.p, bytes.n});
	buf_finish(&bytes);
	alarm(INPUT_SECONDS);
	LLVMFuzzerTestOneInput(s.p, s.n);
	alarm(0);
	alone_free(s);
	return true;
}

static bool run_dir(const char *path)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);
	bool ok = n >= 0;

	for (int i = 0; i < n; i++) {
		char *file;

		if (asprintf(&file, "%s/%s", path, names[i]->d_name) < 0) abort();
		if (names[i]->d_name[0] != '.') ok = run_file(file) && ok;
		free(file);
		free(names[i]);
	}
	if (n >= 0) free(names);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok = true;

	signal(SIGABRT, name_input);
	signal(SIGALRM, name_input);
	if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++) {
		struct stat st;
		bool is_dir = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);

		ok = (is_dir ? run_dir(argv[i]) : run_file(argv[i])) && ok;
	}
	printf("%zu inputs\n", inputs);
	return ok ? 0 : 1;
}
