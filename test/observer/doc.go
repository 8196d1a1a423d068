// Package observer records what happens to the StatefulSets, claims and pods of a
// namespace, and judges whether a claim was deleted that had to stay, or one is left that
// had to go.
//
// It shares no code with the product, and believes nothing that the product says: it goes
// by the API server's watches, in the order of the API server's own revisions. Claims are
// those of the template data, and the names of sets have no dash.
package observer
