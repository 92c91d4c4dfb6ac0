/* Run again by itself with --source arguments, this program hides them and prints what ps would show. */
#include "reader/conninfo.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void clear_environment(void)
{
	static const char *const names[] = {"PGHOST",     "PGHOSTADDR", "PGPORT",
										"PGDATABASE", "PGUSER",     "PGSERVICE"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
	setenv("PGUSER", "me", 1);
}

static void parts_without_secrets_are_shown(void **state)
{
	static const struct {
		const char *conninfo, *shown;
	} cases[] = {
		{"host=db port=5433 dbname=shop user=u password=hunter2", "db:5433/shop"},
		{"host=db dbname=shop", "db:5432/shop"},
		{"host=db user=u", "db:5432/u"},
		{"", "localhost:5432/me"},
		{"dbname=shop", "localhost:5432/shop"},
		{"host=/run/postgresql dbname='my shop'", "/run/postgresql:5432/my shop"},
		{"hostaddr=10.0.0.1 dbname=d", "10.0.0.1:5432/d"},
		{"host=db hostaddr=10.0.0.1 dbname=d", "db:5432/d"},
		{"host=a,b,c port=1,2,3 dbname=d", "a:1,b:2,c:3/d"},
		{"host=a,,c port=5433 dbname=d", "a:5433,localhost:5433,c:5433/d"},
		{"host=a,b port=,5433 dbname=d", "a:5432,b:5433/d"},
		{"host=::1 dbname=d", "[::1]:5432/d"},
		{"postgresql://u:hunter2@db:5433/shop?sslmode=require", "db:5433/shop"},
		{"postgres://u:h%40unter%2F2@[::1]/shop", "[::1]:5432/shop"},
		{"postgresql://u:p?w#x@db/shop", "db:5432/shop"},
		{"postgresql://a:1,b:2/d?target_session_attrs=any", "a:1,b:2/d"},
		{"postgresql:///shop?host=/tmp&port=1", "/tmp:1/shop"},
		{"postgresql://db/shop?application_name=a@b", "db:5432/shop"},
		{"service=prod", "service=prod"},
		{"service=prod host=db dbname=d", "service=prod db:5432/d"},
		{"dbname='host=x password=hunter2'", "localhost:5432/?"},
		{"dbname='postgresql://u:hunter2@h/d'", "localhost:5432/?"},
		{"host='db password=hunter2' dbname=d", "?:5432/d"},
	};

	(void)state;
	clear_environment();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err err = {0};
		char *shown;

		if (!conninfo_display(cases[i].conninfo, &shown, &err))
			fail_msg("%s: %s", cases[i].conninfo, err.msg);
		assert_string_equal(shown, cases[i].shown);
		free(shown);
	}
}

static void missing_parts_come_from_the_environment(void **state)
{
	struct err err = {0};
	char *shown;

	(void)state;
	clear_environment();
	setenv("PGHOST", "envhost", 1);
	setenv("PGPORT", "6000", 1);
	setenv("PGDATABASE", "envdb", 1);
	assert_true(conninfo_display("user=x", &shown, &err));
	assert_string_equal(shown, "envhost:6000/envdb");
	free(shown);
	assert_true(conninfo_display("host=h port=1 dbname=d", &shown, &err));
	assert_string_equal(shown, "h:1/d");
	free(shown);
	clear_environment();
}

static void faults_do_not_repeat_the_input(void **state)
{
	static const struct {
		const char *conninfo, *contains;
	} cases[] = {
		{"SECRET", "a setting has no \"=\""},
		{"host=h password=two SECRET", "a setting has no \"=\""},
		{"host=h SECRET=x", "a setting is not one that libpq knows"},
		{"password='SECRET", "a single quote is not closed"},
		{"postgresql://u:SECRET%zz@h/d", "write \"%\" itself as %25"},
		{"postgresql://u:SECRET%00@h/d", "%00 is not allowed"},
		{"postgresql://[SECRET", "no closing \"]\""},
		{"postgresql://[]/SECRET", "IPv6 address is empty"},
		{"postgresql://[::1]SECRET", "unexpected character after the IPv6"},
		{"postgresql://h/d?SECRET", "a parameter after \"?\" has no \"=\""},
		{"postgresql://h/d?a=b=SECRET", "a parameter after \"?\" has a second \"=\""},
		{"postgresql://h/d?SECRET=1", "a parameter after \"?\" is not one that libpq knows"},
		{"postgresql://u:p/SECRET@h/d", "write @ as %40"},
		{"postgresql://u:123/SECRET@h/d", "write @ as %40"},
		{"postgresql://u:p@SECRET@h/d", "write @ as %40"},
		{"postgresql://u:p@:/SECRET#@h/d", "write @ as %40"},
		{"postgresql://u:SECRET/x", "a port that is not a number"},
		{"host=h port=SECRET", "a port that is not a number"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err err = {0};
		char *shown;

		if (conninfo_display(cases[i].conninfo, &shown, &err)) fail_msg("%s: %s", cases[i].conninfo, shown);
		assert_null(shown);
		assert_int_equal(err.kind, ERR_CONFIG);
		assert_null(strstr(err.msg, "SECRET"));
		if (strstr(err.msg, cases[i].contains) == NULL) fail_msg("%s: %s", cases[i].conninfo, err.msg);
	}
}

static void secrets_are_recognized(void **state)
{
	static const struct {
		const char *conninfo;
		bool has;
	} cases[] = {
		{"", false},
		{"host=h user=u dbname=d", false},
		{"postgresql://u@h/d", false},
		{"passfile=/x", false},
		{"password=x", true},
		{"host=h password = 'x y'", true},
		{"sslpassword=x", true},
		{"password=", false},
		{"postgresql://u:p@h/d", true},
		{"postgresql://u@h/d?password=p", true},
		{"postgresql://u@h/d?p%61ssword=p", true},
		{"postgresql://u:p/q@h/d", true},
		{"postgresql://u:pass/d", true},
		{"not a connection string", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (conninfo_has_secret(cases[i].conninfo) != cases[i].has) fail_msg("%s", cases[i].conninfo);
}

/* ---- what ps shows ---- */

#define SELF "/proc/self/exe"

static int print_cmdline(int argc, char **argv)
{
	char text[4096];
	size_t n;
	FILE *in;

	conninfo_hide_args(argc, argv);
	in = fopen("/proc/self/cmdline", "r");
	n = in != NULL ? fread(text, 1, sizeof text - 1, in) : 0;
	for (size_t i = 0; i < n; i++)
		putchar(text[i] != '\0' ? text[i] : '\n');
	return 0;
}

static void run_self(char *const *argv, char *out, size_t size)
{
	int fds[2];
	pid_t pid;
	size_t n = 0;
	ssize_t got;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execv(SELF, argv);
		_exit(127);
	}
	close(fds[1]);
	while ((got = read(fds[0], out + n, size - 1 - n)) > 0)
		n += (size_t)got;
	out[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void passwords_leave_the_process_list(void **state)
{
	static char *const argv[] = {
		"show",
		"run",
		"--source=host=h password=hunter2",
		"--snapshot-source",
		"postgresql://u:hunter2@h/d",
		"--source",
		"host=h dbname=d",
		"--store=password=kept",
		"--resource=a=b",
		"--source=",
		"--source",
		NULL,
	};
	char out[4096];

	/* valgrind does not run a program of its own name again */
	if (getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "vgpreload")) skip();
	(void)state;
	run_self(argv, out, sizeof out);
	assert_string_equal(
		out, "show\nrun\n--source=xxxxxxxxxxxxxxxxxxxxxxx\n--snapshot-source\nxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
			 "--source\nhost=h dbname=d\n--store=password=kept\n--resource=a=b\n--source=\n--source\n");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_without_secrets_are_shown),
		cmocka_unit_test(missing_parts_come_from_the_environment),
		cmocka_unit_test(faults_do_not_repeat_the_input),
		cmocka_unit_test(secrets_are_recognized),
		cmocka_unit_test(passwords_leave_the_process_list),
	};
	if (argc > 1 && strcmp(argv[0], "show") == 0) return print_cmdline(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
