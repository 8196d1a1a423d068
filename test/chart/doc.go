// Package chart tests the Helm chart: what it renders, and on a real API server which
// requests its webhook configurations send to us and which never.
package chart
