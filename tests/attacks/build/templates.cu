/* A class for every path of a binary tree. */
template <int depth, long path>
struct node : node<depth - 1, 2 * path>, node<depth - 1, 2 * path + 1> {
};
template <long path> struct node<0, path> {
};
static node<40, 1> root;
