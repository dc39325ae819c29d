// clean clears the upper halves of the vector registers, in which ISA-L leaves something. On some processors (seen on
// Intel's model 167) the older vector instructions then wait for them, and Go's SHA-256 consists of those.
#ifdef __x86_64__
#include <immintrin.h>
__attribute__((target("avx"))) static void clean_avx(void) { _mm256_zeroupper(); }
static void clean(void)
{
	if (__builtin_cpu_supports("avx"))
		clean_avx();
}
#else
static void clean(void) {}
#endif
