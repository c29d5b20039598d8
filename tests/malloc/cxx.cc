// SPDX-License-Identifier: MIT
// A C++ program: the very first thing that it does with memory of its own is to throw.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define MUST(what)                                                                                 \
	if (!(what))                                                                               \
	throw std::logic_error(#what)

struct alignas(256) Wide {
	char bytes[300];
};

static int handled;
static volatile size_t huge = size_t(1) << 60;

static void handler()
{
	if (++handled == 3)
		std::set_new_handler(nullptr);
}

static void work()
{
	std::map<int, std::string> map;

	for (int i = 0; i < 50000; i++) {
		map[i % 1000] = std::string(i % 300, 'x');
		if (i % 7 == 0)
			map.erase(i % 500);
	}
	try {
		throw std::string("thrown");
	} catch (const std::string &s) {
		MUST(s == "thrown");
	}
	Wide *wide = new Wide[10];
	MUST(reinterpret_cast<uintptr_t>(wide) % 256 == 0);
	delete[] wide;
}

int main()
{
	try {
		throw 1;
	} catch (int) {
	}
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(work);
	for (auto &t : threads)
		t.join();

	void *p = operator new(100);
	operator delete(p, size_t(100));
	p = operator new(100, std::align_val_t(4096));
	MUST(reinterpret_cast<uintptr_t>(p) % 4096 == 0);
	operator delete(p, size_t(100), std::align_val_t(4096));

	std::set_new_handler(handler);
	bool thrown = false;
	try {
		p = operator new(huge);
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	MUST(thrown && handled == 3);
	MUST(!operator new(huge, std::nothrow));
	MUST(!operator new[](huge, std::align_val_t(64), std::nothrow));
	return 0;
}
