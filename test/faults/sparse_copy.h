// Copies a directory of sparse files; holes and zeros are left out.
#ifndef TEST_FAULTS_SPARSE_COPY_H_
#define TEST_FAULTS_SPARSE_COPY_H_

#include <string>

namespace engine_race::test {

// Copies the regular files of directory `from`, and of its subdirectories, into the new directory
// `to`. Throws std::system_error.
void CopySparse(const std::string& from, const std::string& to);

}  // namespace engine_race::test

#endif  // TEST_FAULTS_SPARSE_COPY_H_
