// what: writes more in prepare than it asked for
// task: linear
// expected: prepare_failed, crashed
// prepare: pack

#include <cstdint>
#include <cstring>

extern "C" int64_t pack_bytes() { return 64; }

extern "C" void pack(const float* weight, void* prepared) {
    for (int copy = 0; copy < 4096; ++copy)
        memcpy(static_cast<char*>(prepared) + copy * 48 * 64 * 4, weight, 48 * 64 * 4);
}

extern "C" void kernel(const float*, const float*, float*, const void*, int64_t) {}
