#include "reader/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "reader/log.h"

enum { BAR_WIDTH = 24, LINE_EVERY_US = 10000000, BAR_EVERY_US = 200000, RATE_OVER_US = 2000000 };

/* One terminal, one bar. */
static struct {
	bool terminal, shown;
	char line[256];
	int64_t last_us, rate_from_us;
	uint64_t rate_from_rows;
	double rate;
} bar;

static void put(const char *text)
{
	size_t n = strlen(text);
	while (n > 0) {
		ssize_t w = write(STDERR_FILENO, text, n);
		if (w <= 0) return;
		text += w;
		n -= (size_t)w;
	}
}

static void hide(void)
{
	if (bar.shown) put("\r\033[K");
}

static void redraw(void)
{
	if (bar.shown) put(bar.line);
}

void progress_start(void)
{
	bar.terminal = isatty(STDERR_FILENO) == 1;
	bar.shown = false;
	bar.last_us = bar.rate_from_us = 0;
	bar.rate = 0;
	if (bar.terminal) log_set_hooks(hide, redraw);
}

static void measure(const struct progress_state *s, int64_t now_us)
{
	if (bar.rate_from_us == 0 || s->rows < bar.rate_from_rows) {
		bar.rate_from_us = now_us;
		bar.rate_from_rows = s->rows;
	}
	int64_t over_us = now_us - bar.rate_from_us;
	if (over_us < RATE_OVER_US) return;
	bar.rate = (double)(s->rows - bar.rate_from_rows) * 1e6 / (double)over_us;
	bar.rate_from_us = now_us;
	bar.rate_from_rows = s->rows;
}

static void draw(const struct progress_state *s)
{
	char gauge[BAR_WIDTH + 1], percent[8] = "";
	struct winsize size = {.ws_col = 0};
	uint64_t expected = s->rows_expected;
	if (expected > 0) {
		uint64_t done = s->rows < expected ? s->rows : expected;
		size_t filled = (size_t)(done * BAR_WIDTH / expected);
		memset(gauge, '.', BAR_WIDTH);
		memset(gauge, '#', filled);
		snprintf(percent, sizeof percent, "%3u%% ", (unsigned)(done * 100 / expected));
	} else {
		memset(gauge, '-', BAR_WIDTH);
	}
	gauge[BAR_WIDTH] = '\0';
	(void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
	size_t width = size.ws_col > 20 && size.ws_col < sizeof bar.line - 8 ? size.ws_col : 100;
	char text[sizeof bar.line];
	snprintf(text, sizeof text, "[%s] %s%llu rows, %.0f/s, %llu of %llu tables live, lag %llu kB  %s", gauge,
			 percent, (unsigned long long)s->rows, bar.rate, (unsigned long long)s->tables_live,
			 (unsigned long long)s->tables, (unsigned long long)s->lag_bytes / 1024,
			 s->table != NULL ? s->table : "");
	snprintf(bar.line, sizeof bar.line, "\r%.*s\033[K", (int)width - 1, text);
	bar.shown = true;
	put(bar.line);
}

void progress_show(const struct progress_state *s, int64_t now_us)
{
	measure(s, now_us);
	if (now_us - bar.last_us < (bar.terminal ? BAR_EVERY_US : LINE_EVERY_US)) return;
	bar.last_us = now_us;
	if (bar.terminal)
		draw(s);
	else
		log_info("copying", KV_S("table", s->table), KV_U("rows", s->rows),
				 KV_U("rows_expected", s->rows_expected), KV_U("rows_per_s", bar.rate),
				 KV_U("tables_live", s->tables_live), KV_U("tables", s->tables),
				 KV_U("lag_bytes", s->lag_bytes), KV_U("changes", s->changes), KV_END);
}

void progress_end(void)
{
	hide();
	bar.shown = false;
}
